package suite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
)

func machine(dir string) figures.Machine {
	m := figures.Machine{CPU: field("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), LoadBefore: load(), FileSystem: fileSystem(dir)}
	m.MemoryMiB = memoryMiB("MemTotal")
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.OS = runtime.GOOS + " " + strings.TrimSpace(string(text))
	}
	return m
}

// availableMiB is the memory that programs can still take.
func availableMiB() int { return memoryMiB("MemAvailable") }

// memoryMiB is a figure of the machine's memory; 0 if it is unknown.
func memoryMiB(name string) int {
	kib, _ := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", name), " kB"))
	return kib / 1024
}

// field finds "name : value" in a file of /proc.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem names the common ones.
func fileSystem(dir string) string {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return ""
	}
	names := map[int64]string{0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs", 0x794c7630: "overlayfs"}
	if name := names[int64(s.Type)]; name != "" {
		return name
	}
	return fmt.Sprintf("file system %x", s.Type)
}

// load is the load of the last minute.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

func versions(ctx context.Context) figures.Versions {
	v := figures.Versions{Go: runtime.Version(), Git: said(ctx, "git", "version"), Commit: said(ctx, "git", "rev-parse", "--short=12", "HEAD")}
	v.Dirty = said(ctx, "git", "status", "--porcelain", "--untracked-files=no") != ""
	return v
}

func said(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
