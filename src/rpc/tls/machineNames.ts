import { hostname, networkInterfaces } from 'node:os';

const DNS_NAME = /^[A-Za-z0-9._*-]{1,253}$/;

/** Every name and address by which this machine may be called: host name, localhost, loopback, all its addresses. */
export function machineNames(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  // A link-local IPv6 address means nothing without its interface, which a certificate cannot name.
  const usable = addresses.map(({ address }) => address).filter((address) => !address.startsWith('fe80:'));
  return [hostname().toLowerCase(), 'localhost', '127.0.0.1', '::1', ...usable].filter((name) => name.includes(':') || DNS_NAME.test(name));
}
