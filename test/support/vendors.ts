import type { CodecRole, CodecScripts } from '../../src/profiles';
import type { ReadCodec, ReadModel, ReadProfile, ReadVendor } from '../../src/profiles/import/readVendor';

/** Creates a vendor without models as a repository could return it. Give only the fields that the test is about. */
export function getVendor(given: Partial<ReadVendor> = {}): ReadVendor {
  return {
    id: 'quellwerk',
    name: 'Quellwerk',
    otherNames: [],
    models: [],
    codecs: [],
    incompleteModels: { all: false, ids: [] },
    warnings: [],
    ...given,
  };
}

/** Creates a model with one profile. */
export function getModel(given: Partial<ReadModel> = {}): ReadModel {
  return {
    id: 'qw-10',
    name: 'QW 10',
    description: 'Measures a brook',
    otherNames: [],
    profiles: [getProfile()],
    ...given,
  };
}

/** Creates a profile without a codec. */
export function getProfile(given: Partial<ReadProfile> = {}): ReadProfile {
  const radio = {
    region: 'EU868',
    macVersion: '1.0.3',
    regParamsRevision: 'A',
    deviceStatusReqInterval: 1,
    uplinkInterval: 3600,
    flushQueueOnActivate: true,
    supportsClassB: false,
    supportsClassC: false,
    supportsOtaa: true,
  };
  return {
    ...radio,
    firmwareVersion: '1.0',
    hardwareVersions: [],
    payloadCodecRuntime: given.codec === undefined ? 'NONE' : 'JS',
    codec: undefined,
    ...given,
  };
}

/** Creates a codec of these scripts, each in a separate file, without examples. */
export function createCodec(
  name: string,
  texts: Partial<Readonly<Record<CodecRole, string>>>,
  examples: ReadCodec['examples'] = [],
): ReadCodec {
  const file = (role: CodecRole): CodecScripts[CodecRole] =>
    texts[role] === undefined ? undefined : { name: `${name}-${role}.js`, text: texts[role] };
  return {
    name,
    scripts: { encoder: file('encoder'), decoder: file('decoder'), downlinkDecoder: file('downlinkDecoder') },
    examples,
  };
}
