import type { Command } from 'commander';
import type { KeyChange, KeyRestrictions } from '../../access';
import { UsageError } from '../exit';
import { commaList, duration } from '../options';
import type { OrganizationFlags } from './organizationFlag';

/** Where a new key goes. */
export interface NewKeyFlags extends OrganizationFlags {
  readonly keyFile?: string;
}

/** What a key is limited to, and until when it works. */
export interface LimitFlags extends OrganizationFlags {
  readonly note?: string;
  /** Milliseconds from now. */
  readonly expiresIn?: number;
  readonly neverExpires?: boolean;
  readonly allowFrom?: string[];
  readonly onlyDevices?: string[];
  readonly onlyDevicesOf?: string[];
  readonly onlyCommands?: string[];
}

/** What to change. */
export interface UpdateFlags extends LimitFlags {
  readonly name?: string;
  readonly allowFromAnywhere?: boolean;
  readonly unlimited?: boolean;
}

/** Adds the flags of LimitFlags. */
export function withLimits(command: Command, expires: string): Command {
  return command
    .option('--note <text>', 'a note for people')
    .option('--expires-in <time>', `when it ends, for example 90d (default: ${expires})`, duration)
    .option('--never-expires', 'it does not end')
    .option('--allow-from <addresses>', 'the addresses and networks that it may be used from, with commas between, for example 192.0.2.10,198.51.100.0/24', commaList)
    .option('--only-devices <ids>', 'limit it to these devices', commaList)
    .option('--only-devices-of <connections>', 'limit it to the devices that are bound to these connections', commaList)
    .option('--only-commands <ids>', 'limit it to reading and executing these commands', commaList);
}

/** Adds --key-file. */
export function withKeyFile(command: Command): Command {
  return command.option('--key-file <file>', 'write the key to this new file, readable for this user only, and do not show it');
}

/** What the flags limit a key to; undefined: nothing is said. */
export function restrictionsOf({ onlyDevices, onlyDevicesOf, onlyCommands }: LimitFlags): KeyRestrictions | undefined {
  if (!onlyDevices && !onlyDevicesOf && !onlyCommands) return undefined;
  return { deviceIds: onlyDevices ?? [], connectionIds: onlyDevicesOf ?? [], commandIds: onlyCommands ?? [] };
}

/** Unix milliseconds; null: never; undefined: nothing is said. Throws a UsageError where both are. */
export function expiryOf({ expiresIn, neverExpires }: LimitFlags): number | null | undefined {
  if (neverExpires && expiresIn !== undefined) throw new UsageError('say when the key ends: either --expires-in or --never-expires');
  if (neverExpires) return null;
  return expiresIn === undefined ? undefined : Date.now() + expiresIn;
}

/** What the flags of `keys update` change. Throws a UsageError for flags that exclude each other, or none. */
export function changeOf(flags: UpdateFlags): KeyChange {
  const restrictions = restrictionsOf(flags);
  if (flags.unlimited && restrictions) throw new UsageError('say what to limit the key to: either --unlimited or --only-...');
  if (flags.allowFromAnywhere && flags.allowFrom) throw new UsageError('say where the key may be used from: either --allow-from or --allow-from-anywhere');
  const none = { deviceIds: [], connectionIds: [], commandIds: [] };
  const change: KeyChange = { name: flags.name, note: flags.note, expiresAt: expiryOf(flags), restrictions: flags.unlimited ? none : restrictions, allowedAddresses: flags.allowFromAnywhere ? [] : flags.allowFrom };
  if (fieldsOf(change).length === 0) throw new UsageError('say what to change, for example --name, --expires-in or --allow-from; --help shows all');
  return change;
}

/** The names of the fields that are given. */
export function fieldsOf(given: object): string[] {
  return Object.entries(given).flatMap(([name, value]) => (value === undefined || value === false || (Array.isArray(value) && value.length === 0 && name !== 'allowedAddresses') ? [] : [name]));
}
