import ipaddr from 'ipaddr.js';
import type { Violation } from '../../kernel/errors';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
/** The first address and how many bits all of them share with it. */
type Network = readonly [Address, number];

const MAPPED_BITS = 96;
const EXAMPLES = 'give an address as 192.0.2.10 or 2001:db8::1, or a network as 192.0.2.0/24 or 2001:db8::/32';

/** A list of addresses and networks in their one spelling, without those that stand there twice, and what is wrong with it; `field` is the list's name. */
export function readAddresses(texts: readonly string[], field: string): { addresses: string[]; violations: Violation[] } {
  const read = texts.map((text) => readNetwork(text));
  const violations = read.flatMap((one, at) => (typeof one === 'string' ? [{ field: `${field}[${at}]`, description: one }] : []));
  return { addresses: [...new Set(read.flatMap((one) => (typeof one === 'string' ? [] : [networkText(one)])))], violations };
}

/**
 * Tells whether an address is in one of these addresses and networks; none: every one is. An IPv4 address that is written as IPv6
 * (`::ffff:192.0.2.1`) is the IPv4 address. What is no address is in none. Assumes texts of `readAddresses`.
 */
export function compileAddresses(list: readonly string[]): (address: string) => boolean {
  if (list.length === 0) return () => true;
  const networks = list.map(networkOf);
  return (text) => {
    const [bare = ''] = text.split('%'); // a link-local address may name its interface
    if (!ipaddr.isValid(bare)) return false;
    const address = ipaddr.process(bare);
    return networks.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
  };
}

/** Whether all of one address or network lies in another. Assumes texts of `readAddresses`. */
export function isWithin(inner: string, outer: string): boolean {
  const [network, bits] = networkOf(inner);
  const [around, aroundBits] = networkOf(outer);
  return network.kind() === around.kind() && bits >= aroundBits && network.match(around, aroundBits);
}

function networkOf(text: string): Network {
  const read = readNetwork(text);
  if (typeof read === 'string') throw new Error(`a stored address ${read}`);
  return read;
}

/** The network of a text (a single address is one of all bits), or what is wrong with it. */
function readNetwork(text: string): Network | string {
  const wrong = `${JSON.stringify(text)} is neither an address nor a network; ${EXAMPLES}`;
  // Of the spellings of IPv4 only the one of four decimal numbers: `010.0.0.1` and `1.2` mean something else to everybody.
  if (text.includes('%') || (!text.includes(':') && !ipaddr.IPv4.isValidFourPartDecimal(text.split('/', 1)[0] ?? ''))) return wrong;
  if (!text.includes('/')) return ipaddr.isValid(text) ? whole(ipaddr.process(text)) : wrong;
  if (!ipaddr.isValidCIDR(text)) return wrong;
  const [address, bits] = ipaddr.parseCIDR(text);
  const first = address.kind() === 'ipv4' ? ipaddr.IPv4.networkAddressFromCIDR(text) : ipaddr.IPv6.networkAddressFromCIDR(text);
  if (first.toString() !== address.toString()) return `${JSON.stringify(text)} has bits behind its prefix; give ${networkText(simple([first, bits]))}, or the address alone`;
  return simple([address, bits]);
}

function whole(address: Address): Network {
  return [address, bitsOf(address)];
}

function bitsOf(address: Address): number {
  return address.kind() === 'ipv4' ? 32 : 128;
}

/** IPv4 written as IPv6 is IPv4. */
function simple([address, bits]: Network): Network {
  return bits >= MAPPED_BITS && address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? [address.toIPv4Address(), bits - MAPPED_BITS] : [address, bits];
}

function networkText([address, bits]: Network): string {
  const text = address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
  return bits === bitsOf(address) ? text : `${text}/${bits}`;
}
