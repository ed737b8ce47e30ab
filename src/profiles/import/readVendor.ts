import type { CodecExamples, CodecRuntime, CodecScripts, ProfileSource, RadioProfile } from '../profile';

/** The maximum number of characters in a name. Longer names are truncated. */
export const MAX_NAME_LENGTH = 200;

/** The maximum number of characters in a description. Longer descriptions are truncated. */
export const MAX_DESCRIPTION_LENGTH = 4000;

/** Something in a repository that could not be used, or not unchanged. */
export interface ImportWarning {
  /** The path relative to the repository folder, with `/`. */
  readonly file: string;
  /** What is wrong, and what is not imported because of it. */
  readonly reason: string;
}

/** A codec of a repository. */
export interface ReadCodec {
  /** Unique within its vendor. */
  readonly name: string;
  readonly scripts: CodecScripts;
  readonly examples: readonly CodecExamples[];
}

/** The profile of one firmware version and region of a model. */
export interface ReadProfile extends RadioProfile {
  /** As the vendor writes it, plus a hardware suffix if the model has this version for older hardware too. */
  readonly firmwareVersion: string;
  readonly hardwareVersions: readonly string[];
  readonly payloadCodecRuntime: CodecRuntime;
  /** The name of a codec of the vendor; undefined: none. */
  readonly codec: string | undefined;
}

/** A device model of a repository, with at least one profile. */
export interface ReadModel {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  /** Other names of the model, for example the identifier in the repository. */
  readonly otherNames: readonly string[];
  /** At most one per firmware version and region. */
  readonly profiles: readonly ReadProfile[];
}

/**
 * Vendors or models that could not be read completely. Their stored profiles that were not found now do not count as
 * gone.
 */
export interface IncompleteEntries {
  /** Every vendor or model may be incomplete. */
  readonly all: boolean;
  /** The ids of those that may be incomplete. */
  readonly ids: readonly string[];
}

/** The usable contents of one vendor. */
export interface ReadVendor {
  readonly id: string;
  readonly name: string;
  readonly otherNames: readonly string[];
  readonly models: readonly ReadModel[];
  /** The codecs that its models use. */
  readonly codecs: readonly ReadCodec[];
  readonly incompleteModels: IncompleteEntries;
  readonly warnings: readonly ImportWarning[];
}

/** An open checkout. It reads nothing outside its folder and runs nothing. */
export interface ProfileRepository {
  readonly source: ProfileSource;
  /** The ids of its vendors, in order. */
  readonly vendorIds: readonly string[];
  /**
   * Vendors that could not be read at all. Which models of a read vendor are incomplete is in the result of readVendor.
   */
  readonly incompleteVendors: IncompleteEntries;
  /** Warnings about the lists of vendors. */
  readonly warnings: readonly ImportWarning[];
  /** Finds the id of the vendor with this id or folder name; undefined if there is none. */
  findVendor(name: string): string | undefined;
  /**
   * Reads one vendor and yields to the event loop in between. Errors in the files become warnings and are never thrown.
   * Throws the reason of `signal` after it is aborted.
   */
  readVendor(vendorId: string, signal?: AbortSignal): Promise<ReadVendor>;
}
