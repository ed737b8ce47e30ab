/** The two public repositories that profiles are imported from, by their names. */
export const PROFILE_SOURCES = ['lorawan-devices', 'chirpstack-device-profiles'] as const;

/** One of PROFILE_SOURCES. */
export type ProfileSource = (typeof PROFILE_SOURCES)[number];

/** What runs a codec: nothing, our sandbox, or the network server itself. */
export type CodecRuntime = 'NONE' | 'JS' | 'CAYENNE_LPP';

/** How a LoRaWAN device is set up on a network server; as the repositories say it, in our words. */
export interface RadioProfile {
  /** One of REGIONS. */
  readonly region: string;
  /** `1.0.0` to `1.0.4`, or `1.1.0`. */
  readonly macVersion: string;
  /** `A`, `B`, `RP002-1.0.x`; what the source says where that is none of ours. */
  readonly regParamsRevision: string;
  /** Times a day. */
  readonly deviceStatusReqInterval: number;
  /** Seconds. */
  readonly uplinkInterval: number;
  readonly flushQueueOnActivate: boolean;
  readonly supportsClassB: boolean;
  readonly supportsClassC: boolean;
  readonly supportsOtaa: boolean;
}

/** A file of a codec, as its vendor published it. */
export interface CodecFile {
  /** Its name, without folders. */
  readonly name: string;
  readonly text: string;
}

/** What a codec can do; in this order where there is one. */
export const CODEC_ROLES = ['encoder', 'decoder', 'downlinkDecoder'] as const;

/** One of CODEC_ROLES: encodes downlinks, decodes uplinks, or decodes downlinks. */
export type CodecRole = (typeof CODEC_ROLES)[number];

/** Which file does what; one file may do all. */
export type CodecScripts = { readonly [Role in CodecRole]: CodecFile | undefined };

/** The examples that a repository gives for one role of a codec, item by item as they stand there. Never run while importing. */
export interface CodecExamples {
  readonly role: CodecRole;
  /** The file that they stand in, seen from the repository. */
  readonly file: string;
  /** JSON values: `{description | name, input, output | expected}` if they are right. */
  readonly items: readonly unknown[];
}

/** A profile as it is stored. */
export interface DeviceProfile extends RadioProfile {
  /** `<brand>/<model>/<firmware>/<region>`. */
  readonly id: string;
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly brandName: string;
  readonly modelId: string;
  readonly modelName: string;
  readonly description: string;
  readonly firmwareVersion: string;
  readonly hardwareVersions: readonly string[];
  readonly payloadCodecRuntime: CodecRuntime;
  /** Undefined: it has no script. */
  readonly codecId: string | undefined;
  readonly createdAt: number;
  /** When an import last changed it. */
  readonly updatedAt: number;
}
