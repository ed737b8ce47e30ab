/** The public repositories that profiles are imported from, by name. */
export const PROFILE_SOURCES = ['lorawan-devices', 'chirpstack-device-profiles'] as const;

/** One of PROFILE_SOURCES. */
export type ProfileSource = (typeof PROFILE_SOURCES)[number];

/** What runs a codec: nothing (NONE), the sandbox of this server (JS), or the network server itself (CAYENNE_LPP). */
export type CodecRuntime = 'NONE' | 'JS' | 'CAYENNE_LPP';

/** The settings of a LoRaWAN device on a network server, normalized from the repositories. */
export interface RadioProfile {
  /** One of REGIONS. */
  readonly region: string;
  /** `1.0.0` to `1.0.4`, or `1.1.0`. */
  readonly macVersion: string;
  /** `A`, `B` or `RP002-1.0.x`. An unknown revision is stored as the source writes it. */
  readonly regParamsRevision: string;
  /** Requests per day. */
  readonly deviceStatusReqInterval: number;
  /** Seconds. */
  readonly uplinkInterval: number;
  readonly flushQueueOnActivate: boolean;
  readonly supportsClassB: boolean;
  readonly supportsClassC: boolean;
  readonly supportsOtaa: boolean;
}

/** A file of a codec, unchanged from its vendor. */
export interface CodecFile {
  /** The file name without folders. */
  readonly name: string;
  readonly text: string;
}

/** The roles of a codec. Lists of roles keep this order. */
export const CODEC_ROLES = ['encoder', 'decoder', 'downlinkDecoder'] as const;

/** One of CODEC_ROLES: encodes downlinks, decodes uplinks, or decodes downlinks. */
export type CodecRole = (typeof CODEC_ROLES)[number];

/** The file for each role. One file may serve all roles. */
export type CodecScripts = { readonly [Role in CodecRole]: CodecFile | undefined };

/** The examples of a repository for one role of a codec, unchanged. An import never runs them. */
export interface CodecExamples {
  readonly role: CodecRole;
  /** The file that contains them, relative to the repository folder. */
  readonly file: string;
  /** JSON values. A valid example is `{description | name, input, output | expected}`. */
  readonly items: readonly unknown[];
}

/** A stored device profile. */
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
  /** The id of its codec; undefined: the profile has no script. */
  readonly codecId: string | undefined;
  /** Unix milliseconds. */
  readonly createdAt: number;
  /** The time of the last change by an import, Unix milliseconds. */
  readonly updatedAt: number;
}
