import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Reach } from '../../kernel/reach';

/** What is kept of a key; never the key itself. Times are Unix milliseconds. */
export interface ApiKey {
  readonly id: string;
  readonly organizationId: string;
  readonly ownerUserId: string;
  readonly name: string;
  /** `plr_` and the first 6 characters of the secret. */
  readonly prefix: string;
  readonly scopes: readonly string[];
  /** The gateway connections that it may attach to; empty with `allConnections`. */
  readonly connectionIds: readonly string[];
  readonly allConnections: boolean;
  /** For people; may be empty. */
  readonly note: string;
  /** Undefined: it reaches the whole organization. */
  readonly restrictions: KeyRestrictions | undefined;
  /** Addresses and networks that it may be used from, in their one spelling; none: all. */
  readonly allowedAddresses: readonly string[];
  /** The key that it took the place of; empty: none. */
  readonly rotatedFrom: string;
  /** Made on the command line: may act on the whole installation. */
  readonly isAdmin: boolean;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Undefined: never. */
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
  /** To the minute; it lags by up to one. */
  readonly lastUsedAt: number | undefined;
  /** Empty: never used. */
  readonly lastUsedAddress: string;
}

/** What a key is limited to, by ids; an empty list does not limit, and not all three are empty. */
export interface KeyRestrictions {
  readonly deviceIds: readonly string[];
  /** All devices that are bound to them. */
  readonly connectionIds: readonly string[];
  readonly commandIds: readonly string[];
}

/** What a new key may do. */
export interface KeyGrant {
  readonly scopes: readonly string[];
  readonly connectionIds: readonly string[];
  readonly allConnections: boolean;
  readonly restrictions: KeyRestrictions | undefined;
  /** Addresses and networks; none: all. */
  readonly allowedAddresses: readonly string[];
  /** Unix milliseconds; undefined: never. */
  readonly expiresAt: number | undefined;
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'plr_';
const SECRET_BYTES = 32;
const SECRET_DIGITS = 43;
const CHECKSUM_DIGITS = 6;
const FORM = new RegExp(`^${PREFIX}[0-9A-Za-z]{${SECRET_DIGITS + CHECKSUM_DIGITS}}$`);

/** A new key: `plr_`, 32 random bytes in base62 (43 digits), the CRC32 of all that in base62 (6 digits). */
export function newKeyText(): string {
  const secret = BigInt(`0x${randomBytes(SECRET_BYTES).toString('hex')}`);
  const body = PREFIX + base62(secret, SECRET_DIGITS);
  return body + checksum(body);
}

/** Whether a text can be a key at all: its form and its checksum. A mistyped key is refused here, without a look-up. */
export function isWellFormed(text: string): boolean {
  if (!FORM.test(text)) return false;
  const body = text.slice(0, -CHECKSUM_DIGITS);
  return text === body + checksum(body);
}

/** SHA-256 of the whole key in hex: the only form that is stored. */
export function hashKey(text: string): string {
  return hash('sha256', text, 'hex');
}

/** What may be shown and logged of a key. */
export function prefixOf(text: string): string {
  return text.slice(0, PREFIX.length + 6);
}

/** What a key with these restrictions reaches; undefined: its organization. */
export function reachOf(restrictions: KeyRestrictions | undefined): Reach | undefined {
  if (!restrictions) return undefined;
  const { deviceIds, connectionIds, commandIds } = restrictions;
  const byDevice = deviceIds.length > 0 || connectionIds.length > 0;
  return { devices: byDevice ? { ids: new Set(deviceIds), connectionIds: new Set(connectionIds) } : undefined, commands: commandIds.length > 0 ? new Set(commandIds) : undefined };
}

function checksum(body: string): string {
  return base62(BigInt(crc32(body)), CHECKSUM_DIGITS);
}

function base62(value: bigint, width: number): string {
  let text = '';
  for (let rest = value; rest > 0n; rest /= 62n) text = DIGITS.charAt(Number(rest % 62n)) + text;
  return text.padStart(width, '0');
}
