import type { CodecRole, CodecScripts } from '../../src/profiles';
import type { ReadCodec, ReadModel, ReadProfile, ReadVendor } from '../../src/profiles/import/readVendor';

/** A vendor as a repository could give it, without models; name only what the test is about. */
export function vendorOf(given: Partial<ReadVendor> = {}): ReadVendor {
  return { id: 'quellwerk', name: 'Quellwerk', otherNames: [], models: [], codecs: [], unread: { all: false, ids: [] }, warnings: [], ...given };
}

/** A model with one profile. */
export function modelOf(given: Partial<ReadModel> = {}): ReadModel {
  return { id: 'qw-10', name: 'QW 10', description: 'Measures a brook', otherNames: [], profiles: [profileOf()], ...given };
}

/** A profile without a codec. */
export function profileOf(given: Partial<ReadProfile> = {}): ReadProfile {
  const radio = { region: 'EU868', macVersion: '1.0.3', regParamsRevision: 'A', deviceStatusReqInterval: 1, uplinkInterval: 3600, flushQueueOnActivate: true, supportsClassB: false, supportsClassC: false, supportsOtaa: true };
  return { ...radio, firmwareVersion: '1.0', hardwareVersions: [], payloadCodecRuntime: given.codec === undefined ? 'NONE' : 'JS', codec: undefined, ...given };
}

/** A codec of these scripts, each in a file of its own; without examples. */
export function codecOf(name: string, texts: Partial<Readonly<Record<CodecRole, string>>>, examples: ReadCodec['examples'] = []): ReadCodec {
  const file = (role: CodecRole): CodecScripts[CodecRole] => (texts[role] === undefined ? undefined : { name: `${name}-${role}.js`, text: texts[role] });
  return { name, scripts: { encoder: file('encoder'), decoder: file('decoder'), downlinkDecoder: file('downlinkDecoder') }, examples };
}
