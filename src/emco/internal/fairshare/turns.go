package fairshare

// Turns orders items so that tenants take turns: each tenant has as many items in a turn as
// its weight. A tenant's items keep their order, and tenants come in the order of their first
// items. A nil weight, or one less than 1, is 1.
func Turns[T any](items []T, tenantOf func(T) string, weight func(tenant string) int) []T {
	queues, names := map[string][]T{}, []string{}
	for _, item := range items {
		name := tenantOf(item)
		if queues[name] == nil {
			names = append(names, name)
		}
		queues[name] = append(queues[name], item)
	}
	if len(names) < 2 {
		return items
	}
	out := make([]T, 0, len(items))
	for len(out) < len(items) {
		for _, name := range names {
			n := 1
			if weight != nil {
				n = max(1, weight(name))
			}
			n = min(n, len(queues[name]))
			out = append(out, queues[name][:n]...)
			queues[name] = queues[name][n:]
		}
	}
	return out
}
