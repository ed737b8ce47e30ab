import type { CodecRuntime, DeviceProfile, ProfileSource } from '../profile';

/** What to look up; all as people spell it. */
export interface ProfileQuery {
  readonly brand: string;
  readonly model: string;
  readonly band: string;
  /** Undefined: the newest. */
  readonly firmwareVersion: string | undefined;
}

/** A profile with its codec as one script; empty: it has none. */
export interface ProfileTemplate extends DeviceProfile {
  readonly codec: string;
}

/** Which models to list; undefined or empty filters let all through. */
export interface ModelQuery {
  readonly search: string | undefined;
  readonly brand: string | undefined;
  readonly model: string | undefined;
  readonly band: string | undefined;
  readonly pageSize: number | undefined;
  readonly pageToken: string;
}

/** A profile of a listed model. */
export interface ListedProfile {
  readonly id: string;
  readonly region: string;
  readonly macVersion: string;
  readonly payloadCodecRuntime: CodecRuntime;
  readonly decodesUplinks: boolean;
  readonly encodesDownlinks: boolean;
}

/** A model as lists show it. */
export interface ListedModel {
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly brandName: string;
  readonly modelId: string;
  readonly modelName: string;
  readonly description: string;
  /** The newest first. */
  readonly firmwareVersions: readonly { readonly version: string; readonly hardwareVersions: readonly string[]; readonly profiles: readonly ListedProfile[] }[];
}

/** One page of models; `nextPageToken` is empty on the last. */
export interface ModelPage {
  readonly models: readonly ListedModel[];
  readonly total: number;
  readonly nextPageToken: string;
}
