/** A host and port to listen on or to call. */
export interface HostPort {
  /** A host name or an IP address; IPv6 without brackets. */
  readonly host: string;
  /** 0 to 65535; 0 selects a free port. */
  readonly port: number;
}

const MAX_PORT = 65_535;

/** Parses `host:port` or `[IPv6]:port`; undefined if the text is neither. */
export function parseHostPort(text: string): HostPort | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(text);
  if (!match) return undefined;
  const [, ipv6, hostName, portText] = match;
  const port = Number(portText);
  return port > MAX_PORT ? undefined : { host: ipv6 ?? hostName ?? '', port };
}

/** Formats a host and port so that parseHostPort can parse it. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether the host is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** The host that local clients use to reach a server listening on `host`; a wildcard address becomes loopback. */
export function getLocalHost(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
}
