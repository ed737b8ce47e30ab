import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { ResourceScope } from '../../kernel/resourceScope';

/** The stored record of a key; it does not contain the key itself. Times are Unix milliseconds. */
export interface ApiKey {
  readonly id: string;
  readonly organizationId: string;
  readonly ownerUserId: string;
  readonly name: string;
  /** `plr_` and the first 6 characters of the secret. */
  readonly prefix: string;
  readonly scopes: readonly string[];
  /** The gateway connections that the key may attach to; empty with `allConnections`. */
  readonly connectionIds: readonly string[];
  readonly allConnections: boolean;
  /** A note for users; may be empty. */
  readonly note: string;
  /** Undefined if the key can access the whole organization. */
  readonly restrictions: KeyRestrictions | undefined;
  /** The addresses and networks that the key may be used from, in canonical form; empty: all. */
  readonly allowedAddresses: readonly string[];
  /** The id of the key that this one replaced; empty if none. */
  readonly rotatedFrom: string;
  /** Created on the command line: the key may manage the complete installation. */
  readonly isAdmin: boolean;
  /**
   * The key has the rights of an owner while its user is an owner: it was created by an owner, by the user, or on the
   * command line.
   */
  readonly canActAsOwner: boolean;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Undefined if the key does not expire. */
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
  /** Rounded down to the minute; stored up to one minute late. */
  readonly lastUsedAt: number | undefined;
  /** Empty if the key was never used. */
  readonly lastUsedAddress: string;
}

/**
 * The devices and commands that a key is limited to, by ids. An empty list does not limit; at least one list is not
 * empty.
 */
export interface KeyRestrictions {
  readonly deviceIds: readonly string[];
  /** All devices that are bound to these connections. */
  readonly connectionIds: readonly string[];
  readonly commandIds: readonly string[];
}

/** The permissions of a new key. */
export interface KeyGrant {
  readonly scopes: readonly string[];
  readonly connectionIds: readonly string[];
  readonly allConnections: boolean;
  readonly restrictions: KeyRestrictions | undefined;
  /** Addresses and networks; empty: all. */
  readonly allowedAddresses: readonly string[];
  /** Unix milliseconds; undefined if the key does not expire. */
  readonly expiresAt: number | undefined;
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'plr_';
const SECRET_BYTES = 32;
/** 43 digits of base62 hold 256 bits. */
const SECRET_DIGITS = 43;
/** 6 digits of base62 hold the 32 bits of a CRC32. */
const CHECKSUM_DIGITS = 6;
/** The number of digits of the secret that may be shown, so that users can tell their keys apart. */
const SHOWN_DIGITS = 6;
const BASE = BigInt(DIGITS.length);
const FORMAT = new RegExp(`^${PREFIX}[0-9A-Za-z]{${SECRET_DIGITS + CHECKSUM_DIGITS}}$`);

/** Creates a new key: `plr_`, 32 random bytes in base62 (43 digits), and the CRC32 of both in base62 (6 digits). */
export function newKeyText(): string {
  const secret = BigInt(`0x${randomBytes(SECRET_BYTES).toString('hex')}`);
  const body = PREFIX + toBase62(secret, SECRET_DIGITS);
  return body + computeChecksum(body);
}

/** Whether the format and the checksum of a key are valid. This rejects mistyped keys without a database query. */
export function isWellFormed(text: string): boolean {
  if (!FORMAT.test(text)) return false;
  const body = text.slice(0, -CHECKSUM_DIGITS);
  return text === body + computeChecksum(body);
}

/** Returns the SHA-256 hash of the whole key in hex, the only form that is stored. */
export function hashKey(text: string): string {
  return hash('sha256', text, 'hex');
}

/** Returns the part of a key that may be shown and logged. */
export function getPrefix(text: string): string {
  return text.slice(0, PREFIX.length + SHOWN_DIGITS);
}

/**
 * Returns the devices and commands that a key with these restrictions can access; undefined: everything in its
 * organization.
 */
export function toResourceScope(restrictions: KeyRestrictions | undefined): ResourceScope | undefined {
  if (!restrictions) return undefined;
  const { deviceIds, connectionIds, commandIds } = restrictions;
  const hasDeviceLimit = deviceIds.length > 0 || connectionIds.length > 0;
  return {
    devices: hasDeviceLimit ? { ids: new Set(deviceIds), connectionIds: new Set(connectionIds) } : undefined,
    commands: commandIds.length > 0 ? new Set(commandIds) : undefined,
  };
}

/** Returns the CRC32 of the text as base62 digits. */
function computeChecksum(body: string): string {
  return toBase62(BigInt(crc32(body)), CHECKSUM_DIGITS);
}

/** Formats a number in base62 with at least `width` digits. */
function toBase62(value: bigint, width: number): string {
  let text = '';
  // Division of bigints rounds down.
  for (let rest = value; rest > 0n; rest /= BASE) text = DIGITS.charAt(Number(rest % BASE)) + text;
  return text.padStart(width, '0');
}
