import { hostname, networkInterfaces } from 'node:os';

const DNS_NAME = /^[A-Za-z0-9._*-]{1,253}$/;

/** Lists all names and addresses of this machine: host name, localhost, loopback and network addresses. */
export function listMachineNames(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  // A link-local IPv6 address is only valid with its network interface, which a certificate cannot contain.
  const usable = addresses.map(({ address }) => address).filter((address) => !address.startsWith('fe80:'));
  return [hostname().toLowerCase(), 'localhost', '127.0.0.1', '::1', ...usable].filter(
    (name) => name.includes(':') || DNS_NAME.test(name),
  );
}
