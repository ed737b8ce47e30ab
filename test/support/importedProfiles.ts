import type { Database } from '../../src/database';
import type { Clock } from '../../src/kernel/clock';
import { ProfileImports, type ReadVendor } from '../../src/profiles';
import { codecOf, modelOf, profileOf, vendorOf } from './vendors';

/** The id of the profile that importDecoder makes. */
export const PROFILE_ID = 'quellwerk/qw-10/1.0/EU868';

/** Stores a vendor as an import would, also again; only what changed is written. */
export async function importVendor(database: Database, clock: Clock, vendor: ReadVendor): Promise<void> {
  await new ProfileImports({ database, clock }).store('lorawan-devices', vendor);
}

/** Imports one model of one profile, whose codec has this decoder; undefined: an encoder alone. Without a name it is that of PROFILE_ID. */
export async function importDecoder(database: Database, clock: Clock, decoder: string | undefined, modelId = 'qw-10'): Promise<string> {
  const codec = codecOf(modelId, decoder === undefined ? { encoder: 'function encodeDownlink() { return { bytes: [] }; }' } : { decoder });
  const model = modelOf({ id: modelId, name: modelId, profiles: [profileOf({ codec: modelId, uplinkInterval: 600 })] });
  await importVendor(database, clock, vendorOf({ id: `quellwerk${modelId === 'qw-10' ? '' : `-${modelId}`}`, models: [model], codecs: [codec] }));
  return modelId === 'qw-10' ? PROFILE_ID : `quellwerk-${modelId}/${modelId}/1.0/EU868`;
}
