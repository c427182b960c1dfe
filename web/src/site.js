export function startSite(host) { host.append("no server yet"); }
