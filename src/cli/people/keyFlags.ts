import type { Command } from 'commander';
import type { KeyChange, KeyRestrictions } from '../../access';
import { UsageError } from '../exit';
import { parseCommaList, parseDuration } from '../options';
import type { OrganizationFlags } from './organizationFlag';

/** The flags of commands that create a key. */
export interface NewKeyFlags extends OrganizationFlags {
  readonly keyFile?: string;
}

/** The flags for the limits and the expiry of a key. */
export interface LimitFlags extends OrganizationFlags {
  readonly note?: string;
  /** Milliseconds from now. */
  readonly ttl?: number;
  /** False with --no-expiry. */
  readonly expiry: boolean;
  readonly allowFrom?: string[];
  readonly onlyDevices?: string[];
  readonly onlyConnections?: string[];
  readonly onlyCommands?: string[];
}

/** The flags of `keys update`. */
export interface UpdateFlags extends LimitFlags {
  readonly name?: string;
  readonly allowAnyAddress?: boolean;
  readonly unlimited?: boolean;
}

/** Adds the options of LimitFlags. `expires`: the default of --ttl for the help text. */
export function withLimitOptions(command: Command, expires: string): Command {
  return command
    .option('--note <text>', 'A note about the key')
    .option('--ttl <time>', `How long the key is valid, for example 90d (default: ${expires})`, parseDuration)
    .option('--no-expiry', 'The key does not expire')
    .option(
      '--allow-from <addresses>',
      'Comma-separated IP addresses and networks that the key may be used from, for example 192.0.2.10,198.51.100.0/24',
      parseCommaList,
    )
    .option('--only-devices <ids>', 'Limit the key to these devices', parseCommaList)
    .option(
      '--only-connections <connections>',
      'Limit the key to the devices that are bound to these connections',
      parseCommaList,
    )
    .option('--only-commands <ids>', 'Limit the key to reading and executing these commands', parseCommaList);
}

/** Adds --key-file. */
export function withKeyFileOption(command: Command): Command {
  return command.option(
    '--key-file <file>',
    'Write the key to this new file, readable for this user only, instead of showing it',
  );
}

/** Returns the restrictions of the flags; undefined if none is set. */
export function findRestrictions({
  onlyDevices,
  onlyConnections,
  onlyCommands,
}: LimitFlags): KeyRestrictions | undefined {
  if (!onlyDevices && !onlyConnections && !onlyCommands) return undefined;
  return { deviceIds: onlyDevices ?? [], connectionIds: onlyConnections ?? [], commandIds: onlyCommands ?? [] };
}

/**
 * Returns the expiry in Unix milliseconds; null: never; undefined: not set. Throws a UsageError if both flags are set.
 */
export function findExpiry({ ttl, expiry }: LimitFlags): number | null | undefined {
  if (!expiry && ttl !== undefined)
    throw new UsageError('--ttl and --no-expiry cannot be combined: use only one of them');
  if (!expiry) return null;
  return ttl === undefined ? undefined : Date.now() + ttl;
}

/**
 * Returns the change of `keys update`. Throws a UsageError for flags that exclude each other, or if no change is set.
 */
export function toKeyChange(flags: UpdateFlags): KeyChange {
  const restrictions = findRestrictions(flags);
  if (flags.unlimited && restrictions)
    throw new UsageError('--unlimited cannot be combined with --only-...: use only one of them');
  if (flags.allowAnyAddress && flags.allowFrom)
    throw new UsageError('--allow-from and --allow-any-address cannot be combined: use only one of them');
  const noRestrictions = { deviceIds: [], connectionIds: [], commandIds: [] };
  const change: KeyChange = {
    name: flags.name,
    note: flags.note,
    expiresAt: findExpiry(flags),
    restrictions: flags.unlimited ? noRestrictions : restrictions,
    allowedAddresses: flags.allowAnyAddress ? [] : flags.allowFrom,
  };
  if (listSetFields(change).length === 0)
    throw new UsageError(
      'nothing to change: set at least one option, for example --name, --ttl or --allow-from (see --help)',
    );
  return change;
}

/** Returns the names of the fields that are set. An empty list counts as not set, except for allowedAddresses (any). */
export function listSetFields(values: object): string[] {
  return Object.entries(values)
    .filter(([name, value]) => isSet(name, value))
    .map(([name]) => name);
}

function isSet(name: string, value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0 || name === 'allowedAddresses';
  return value !== undefined && value !== false;
}
