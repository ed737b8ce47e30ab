import type { FastifyRequest } from 'fastify';
import { isIP } from 'node:net';

/**
 * Returns the IP address of the client, without a port. Behind a trusted proxy, it is the last address in
 * X-Forwarded-For that is not a trusted proxy, because the client itself can set the entries before it.
 */
export function getPeer(request: FastifyRequest): string {
  const direct = request.raw.socket.remoteAddress ?? 'unknown';
  const { ip = direct } = request as { ip?: string };
  return normalizeAddress(ip === direct ? direct : (parseAddress(ip) ?? direct));
}

/** Returns the address without a port, which some proxies add; undefined if the text is not an IP address. */
function parseAddress(text: string): string | undefined {
  const inBrackets = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1]; // `[2001:db8::1]` or `[2001:db8::1]:443`
  const beforePort = /^([\d.]+):\d+$/.exec(text)?.[1]; // `192.0.2.1:443`
  const address = inBrackets ?? beforePort ?? text;
  return isIP(address) === 0 ? undefined : address;
}

/** The prefix of an IPv4 address that is written as IPv6. */
const IPV4_PREFIX = '::ffff:';

/** Returns an IPv4 address without the IPv6 prefix. */
function normalizeAddress(address: string): string {
  return address.startsWith(IPV4_PREFIX) ? address.slice(IPV4_PREFIX.length) : address;
}
