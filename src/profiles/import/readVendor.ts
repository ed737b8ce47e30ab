import type { CodecExamples, CodecRuntime, CodecScripts, ProfileSource, RadioProfile } from '../profile';

/** Characters of a name that are kept; the rest is cut off. */
export const LONGEST_NAME = 200;

/** The same of a description. */
export const LONGEST_DESCRIPTION = 4000;

/** Something in a repository that could not be used, or not as it stands there. */
export interface ImportWarning {
  /** Seen from the repository's folder, with `/`. */
  readonly file: string;
  /** What is wrong, and what that costs. */
  readonly reason: string;
}

/** A codec as it was read. */
export interface ReadCodec {
  /** Unique in its vendor. */
  readonly name: string;
  readonly scripts: CodecScripts;
  readonly examples: readonly CodecExamples[];
}

/** One firmware version and region of a model. */
export interface ReadProfile extends RadioProfile {
  /** As the vendor writes it. */
  readonly firmwareVersion: string;
  readonly hardwareVersions: readonly string[];
  readonly payloadCodecRuntime: CodecRuntime;
  /** The name of a codec of the vendor; undefined: none. */
  readonly codec: string | undefined;
}

/** A device as it was read; at least one profile. */
export interface ReadModel {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  /** What else it may be called, for example the repository's own identifier. */
  readonly otherNames: readonly string[];
  /** No two of the same firmware version and region. */
  readonly profiles: readonly ReadProfile[];
}

/** What is there and could not be read, or not all of it: nobody can say what else it has. */
export interface Unread {
  /** Anything at all may be missing. */
  readonly all: boolean;
  /** The ids of those of which something may be missing. */
  readonly ids: readonly string[];
}

/** All of one vendor that can be used. */
export interface ReadVendor {
  readonly id: string;
  readonly name: string;
  readonly otherNames: readonly string[];
  readonly models: readonly ReadModel[];
  /** Those that its models name. */
  readonly codecs: readonly ReadCodec[];
  /** Of its models, by their ids. */
  readonly unread: Unread;
  readonly warnings: readonly ImportWarning[];
}

/** A checkout that was recognised. Reads nothing outside its folder and runs nothing. */
export interface ProfileRepository {
  readonly source: ProfileSource;
  /** The ids of its vendors, in order. */
  readonly vendorIds: readonly string[];
  /** Of its vendors, by their ids; those of `vendorIds` say it themselves. */
  readonly unread: Unread;
  /** What was wrong with the lists of vendors themselves. */
  readonly warnings: readonly ImportWarning[];
  /** The id of the vendor that is named by its id, or by its folder; undefined: there is none. */
  findVendor(name: string): string | undefined;
  /** Reads one vendor, with turns for others in between. Never throws for what stands in the files: that is in the warnings. Throws the reason of `signal` once that is aborted. */
  readVendor(vendorId: string, signal?: AbortSignal): Promise<ReadVendor>;
}
