import type { CodecRuntime, DeviceProfile, ProfileSource } from '../profile';

/** A profile look-up. All names are as the user spells them. */
export interface ProfileQuery {
  readonly brand: string;
  readonly model: string;
  readonly band: string;
  /** Undefined: the newest version. */
  readonly firmwareVersion: string | undefined;
}

/** A profile with its codec as one script; `codec` is empty if it has none. */
export interface ProfileTemplate extends DeviceProfile {
  readonly codec: string;
}

/** Filters for the list of models. An undefined or empty filter matches all models. */
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

/** A model in the list. */
export interface ListedModel {
  readonly source: ProfileSource;
  readonly brandId: string;
  readonly brandName: string;
  readonly modelId: string;
  readonly modelName: string;
  readonly description: string;
  /** The newest version first. */
  readonly firmwareVersions: readonly {
    readonly version: string;
    readonly hardwareVersions: readonly string[];
    readonly profiles: readonly ListedProfile[];
  }[];
}

/** One page of models; `nextPageToken` is empty on the last. */
export interface ModelPage {
  readonly models: readonly ListedModel[];
  readonly total: number;
  readonly nextPageToken: string;
}
