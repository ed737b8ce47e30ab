import type { Database } from '../../src/database';
import type { Clock } from '../../src/kernel/clock';
import { ProfileImports, type ReadVendor } from '../../src/profiles';
import { createCodec, getModel, getProfile, getVendor } from './vendors';

/** The ID of the profile that importDecoder creates. */
export const PROFILE_ID = 'quellwerk/qw-10/1.0/EU868';

/** Stores a vendor as an import would, or updates it. Only changes are written. */
export async function importVendor(database: Database, clock: Clock, vendor: ReadVendor): Promise<void> {
  await new ProfileImports({ database, clock }).store('lorawan-devices', vendor);
}

/**
 * Imports one model with one profile, whose codec has this decoder, or only an encoder if it is undefined. The default
 * name is that of PROFILE_ID.
 */
export async function importDecoder(
  database: Database,
  clock: Clock,
  decoder: string | undefined,
  modelId = 'qw-10',
): Promise<string> {
  const codec = createCodec(
    modelId,
    decoder === undefined ? { encoder: 'function encodeDownlink() { return { bytes: [] }; }' } : { decoder },
  );
  const model = getModel({
    id: modelId,
    name: modelId,
    profiles: [getProfile({ codec: modelId, uplinkInterval: 600 })],
  });
  await importVendor(
    database,
    clock,
    getVendor({ id: `quellwerk${modelId === 'qw-10' ? '' : `-${modelId}`}`, models: [model], codecs: [codec] }),
  );
  return modelId === 'qw-10' ? PROFILE_ID : `quellwerk-${modelId}/${modelId}/1.0/EU868`;
}
