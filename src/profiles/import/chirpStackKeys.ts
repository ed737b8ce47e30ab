import { isTable, type Table } from './fields';
import { some } from './importWarnings';

/** The names that a table may hold; true: whatever stands there is not looked at. */
interface Keys {
  readonly [name: string]: true | Keys;
}

/** Names whose values are looked at elsewhere, or not at all. */
const keys = (...names: readonly string[]): Keys => Object.fromEntries(names.map((name) => [name, true]));

/** Keys of `vendor.toml`. */
export const VENDOR_KEYS: Keys = { vendor: keys('id', 'name', 'vendor_id', 'ouis', 'devices', 'metadata') };

/** Keys of the file of a device. */
export const DEVICE_KEYS: Keys = {
  device: { ...keys('id', 'name', 'description', 'payload_codec_runtime', 'metadata'), firmware: keys('version', 'profiles', 'codec', 'payload_codec_runtime') },
};

const CAPABILITIES = keys('id', 'vendor_profile_id', 'region', 'mac_version', 'reg_params_revision', 'supports_otaa', 'supports_class_b', 'supports_class_c', 'max_eirp');

const SETTINGS = keys('uplink_interval', 'device_status_req_interval', 'flush_queue_on_activate', 'payload_codec_runtime');

/** Keys of the file of a profile. */
export const PROFILE_KEYS: Keys = {
  profile: {
    ...CAPABILITIES,
    ...SETTINGS,
    abp: keys('rx1_delay', 'rx1_dr_offset', 'rx2_dr', 'rx2_freq'),
    class_b: keys('timeout_secs', 'ping_slot_nb_k', 'ping_slot_periodicity', 'ping_slot_dr', 'ping_slot_freq'),
    class_c: keys('timeout_secs'),
  },
};

/** What is to be said of keys that nobody knows, once for a file; undefined: there are none. */
export function unknownKeys(table: Table, keys: Keys): string | undefined {
  const unknown = [...new Set(unknownIn(table, keys, ''))];
  return unknown.length === 0 ? undefined : `has keys that are not known and not used: ${some(unknown)}`;
}

function unknownIn(value: unknown, keys: Keys, before: string): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => unknownIn(item, keys, before));
  if (!isTable(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const known = Object.hasOwn(keys, name) ? keys[name] : undefined;
    if (known === undefined) return [before + name];
    return known === true ? [] : unknownIn(inner, known, `${before}${name}.`);
  });
}
