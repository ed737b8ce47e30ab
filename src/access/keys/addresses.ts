import ipaddr from 'ipaddr.js';
import type { Violation } from '../../kernel/errors';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
/** The first address of a network, and its prefix length in bits. */
type Network = readonly [Address, number];

/** The length of the prefix `::ffff:` in bits, with which an IPv4 address is written as IPv6. */
const MAPPED_BITS = 96;
const EXAMPLES = 'use an address such as 192.0.2.10 or 2001:db8::1, or a network such as 192.0.2.0/24 or 2001:db8::/32';

/**
 * Parses a list of addresses and networks. Returns them in canonical form without duplicates, and the violations;
 * `field` is the name of the list.
 */
export function readAddresses(
  texts: readonly string[],
  field: string,
): { addresses: string[]; violations: Violation[] } {
  const results = texts.map((text) => parseNetwork(text));
  const violations = results.flatMap((result, index) =>
    typeof result === 'string' ? [{ field: `${field}[${index}]`, description: result }] : [],
  );
  return {
    addresses: [...new Set(results.flatMap((result) => (typeof result === 'string' ? [] : [formatNetwork(result)])))],
    violations,
  };
}

/**
 * Returns a function that checks whether an address is in one of the addresses and networks; an empty list allows every
 * address. An IPv4 address written as IPv6 (`::ffff:192.0.2.1`) counts as the IPv4 address. Text that is not an address
 * is in none. Expects the canonical form from `readAddresses`.
 */
export function compileAddressCheck(list: readonly string[]): (address: string) => boolean {
  if (list.length === 0) return () => true;
  const networks = list.map(parseStoredNetwork);
  return (text) => {
    const [addressText = ''] = text.split('%'); // a link-local address may contain its interface
    if (!ipaddr.isValid(addressText)) return false;
    const address = ipaddr.process(addressText); // converts an IPv4 address written as IPv6
    return networks.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
  };
}

/**
 * Whether an address or network is completely inside another one. An IPv4 address is never inside an IPv6 network.
 * Expects the canonical form from `readAddresses`.
 */
export function isWithin(inner: string, outer: string): boolean {
  const [innerAddress, innerBits] = parseStoredNetwork(inner);
  const [outerAddress, outerBits] = parseStoredNetwork(outer);
  return (
    innerAddress.kind() === outerAddress.kind() && innerBits >= outerBits && innerAddress.match(outerAddress, outerBits)
  );
}

/** Returns the network that a peer is counted by: an IPv4 address, or the first 64 bits of an IPv6 address. */
export function getPeerNetwork(peer: string): string {
  const [addressText = ''] = peer.split('%'); // a link-local address may contain its interface
  if (!addressText.includes(':') || !ipaddr.IPv6.isValid(addressText)) return peer;
  return ipaddr.IPv6.parse(addressText).parts.slice(0, 4).join(':');
}

/** Parses a stored address or network. Throws if it is invalid, which stored values never are. */
function parseStoredNetwork(text: string): Network {
  const network = parseNetwork(text);
  if (typeof network === 'string') throw new Error(`invalid stored address: ${network}`);
  return network;
}

/** Parses an address (a network with all bits) or a network. If it is invalid, returns the error text instead. */
function parseNetwork(text: string): Network | string {
  const error = `${JSON.stringify(text)} is neither an address nor a network: ${EXAMPLES}`;
  const [addressText = ''] = text.split('/', 1);
  const isIPv6 = text.includes(':');
  // IPv4 must be four decimal numbers: other programs interpret variants such as `010.0.0.1` and `1.2` differently.
  if (!isIPv6 && !ipaddr.IPv4.isValidFourPartDecimal(addressText)) return error;
  if (text.includes('%')) return error; // a link-local address with its interface
  if (!text.includes('/')) return ipaddr.isValid(text) ? toSingleAddressNetwork(ipaddr.process(text)) : error;
  if (!ipaddr.isValidCIDR(text)) return error;
  const [address, bits] = ipaddr.parseCIDR(text);
  const firstAddress =
    address.kind() === 'ipv4' ? ipaddr.IPv4.networkAddressFromCIDR(text) : ipaddr.IPv6.networkAddressFromCIDR(text);
  if (firstAddress.toString() !== address.toString())
    return `${JSON.stringify(text)} has bits set after its prefix: use ${formatNetwork(unmapIPv4([firstAddress, bits]))}, or the address without a prefix`;
  return unmapIPv4([address, bits]);
}

/** Returns the network that contains only this address. */
function toSingleAddressNetwork(address: Address): Network {
  return [address, getAddressBits(address)];
}

function getAddressBits(address: Address): number {
  return address.kind() === 'ipv4' ? 32 : 128;
}

/** Converts an IPv4 network that is written as IPv6 to IPv4. */
function unmapIPv4([address, bits]: Network): Network {
  return bits >= MAPPED_BITS && address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()
    ? [address.toIPv4Address(), bits - MAPPED_BITS]
    : [address, bits];
}

/** Formats a network in canonical form; a network of one address as the address alone. */
function formatNetwork([address, bits]: Network): string {
  const text = address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
  return bits === getAddressBits(address) ? text : `${text}/${bits}`;
}
