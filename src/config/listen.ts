/** A host and port to listen on or to call. */
export interface HostPort {
  /** A host name or an address, IPv6 without brackets. */
  readonly host: string;
  /** 0 to 65535; 0 lets the machine choose. */
  readonly port: number;
}

/** Reads `host:port` or `[IPv6]:port`; undefined if it is neither. */
export function findHostPort(text: string): HostPort | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(text);
  if (!match) return undefined;
  const port = Number(match[3]);
  return port > 65_535 ? undefined : { host: match[1] ?? match[2] ?? '', port };
}

/** The text that findHostPort reads. */
export function hostPortText({ host, port }: HostPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

/** The host by which this machine reaches a server that listens on `host`: every address means loopback. */
export function reachableHost(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
}
