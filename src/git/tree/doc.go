// Package tree holds Git's tree objects, the rules for editing them, and the trees of derived branches (git.DerivedBranch). Packages plain
// and github build commits with it, and gitlab commits through plain, so that the same edits make the same trees and are
// refused for the same reasons, whatever the transport:
//
//   - only what an edit names changes; all else keeps name, mode and object;
//   - a symbolic link or a submodule at or above an edited path is refused, and so is a
//     file above one; the error blames the path where it is;
//   - a file that is there keeps its mode when its content is replaced, a new one is an
//     ordinary file;
//   - a directory edit leaves exactly its files; directories left empty are gone.
//
// Only trees along edited paths are read. It does no I/O of its own.
package tree
