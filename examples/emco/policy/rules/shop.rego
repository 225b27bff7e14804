# Rules of an OPA server for policy intents. EMCO asks with input.event (id, agent, data) and input.group (project,
# compositeApp, version, name), and wants true or false: give each rule a default.
package shop

default refresh := false

# Stable releases, and in the project lab all of them.
refresh if input.event.data.channel == "stable"

refresh if input.group.project == "lab"
