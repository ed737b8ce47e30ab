import { isTable, type Table } from './fields';
import { formatNames } from './importWarnings';

/**
 * The known keys of a table. The value of a key marked `true` is not checked; other values are tables with these keys.
 */
interface Keys {
  readonly [name: string]: true | Keys;
}

/** Creates Keys whose values are not checked here. */
const keys = (...names: readonly string[]): Keys => Object.fromEntries(names.map((name) => [name, true]));

/** The known keys of `vendor.toml`. */
export const VENDOR_KEYS: Keys = { vendor: keys('id', 'name', 'vendor_id', 'ouis', 'devices', 'metadata') };

/** The known keys of a device file. */
export const DEVICE_KEYS: Keys = {
  device: {
    ...keys('id', 'name', 'description', 'payload_codec_runtime', 'metadata'),
    firmware: keys('version', 'profiles', 'codec', 'payload_codec_runtime'),
  },
};

const CAPABILITIES = keys(
  'id',
  'vendor_profile_id',
  'region',
  'mac_version',
  'reg_params_revision',
  'supports_otaa',
  'supports_class_b',
  'supports_class_c',
  'max_eirp',
);

const SETTINGS = keys(
  'uplink_interval',
  'device_status_req_interval',
  'flush_queue_on_activate',
  'payload_codec_runtime',
);

/** The known keys of a profile file. */
export const PROFILE_KEYS: Keys = {
  profile: {
    ...CAPABILITIES,
    ...SETTINGS,
    abp: keys('rx1_delay', 'rx1_dr_offset', 'rx2_dr', 'rx2_freq'),
    class_b: keys('timeout_secs', 'ping_slot_nb_k', 'ping_slot_periodicity', 'ping_slot_dr', 'ping_slot_freq'),
    class_c: keys('timeout_secs'),
  },
};

/** Describes the unknown keys of a file in one warning; undefined if there are none. */
export function describeUnknownKeys(table: Table, keys: Keys): string | undefined {
  const unknown = [...new Set(listUnknownKeys(table, keys, ''))];
  return unknown.length === 0 ? undefined : `has unknown keys, which are ignored: ${formatNames(unknown)}`;
}

/**
 * Lists the paths of unknown keys, for example `firmware.speed`. Lists are searched item by item; the value of a key
 * marked `true` is not searched.
 */
function listUnknownKeys(value: unknown, keys: Keys, prefix: string): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => listUnknownKeys(item, keys, prefix));
  if (!isTable(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const knownKeys = Object.hasOwn(keys, name) ? keys[name] : undefined;
    if (knownKeys === undefined) return [prefix + name];
    return knownKeys === true ? [] : listUnknownKeys(inner, knownKeys, `${prefix}${name}.`);
  });
}
