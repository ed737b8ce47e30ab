import { REGIONS } from '../regions';
import type { ListedModel, ListedProfile } from './catalogue';
import type { ModelRow, ProfileOfModelRow } from './modelListRepository';
import { sortNewestFirst } from './newestFirst';
import { compareTexts } from './versions';

/** Combines models with their firmware versions and profiles for the list. */
export function buildListedModels(models: readonly ModelRow[], profiles: readonly ProfileOfModelRow[]): ListedModel[] {
  const profilesByModel = Map.groupBy(profiles, (profile) => profile.device_model_id);
  return models.map((model) => ({
    source: model.source,
    brandId: model.brand_id,
    brandName: model.brand_name,
    modelId: model.model_id,
    modelName: model.model_name,
    description: model.description,
    firmwareVersions: groupByFirmware(profilesByModel.get(model.id) ?? []),
  }));
}

/** Groups the profiles of a model by firmware version, newest first; within a version in the order of the regions. */
function groupByFirmware(profiles: readonly ProfileOfModelRow[]): ListedModel['firmwareVersions'] {
  const versions = [...Map.groupBy(profiles, (profile) => profile.firmware_version)].map(([version, rows]) => {
    const sorted = rows.toSorted(
      (a, b) => getRegionIndex(a.region) - getRegionIndex(b.region) || compareTexts(a.id, b.id),
    );
    const hardwareVersions = [...new Set(sorted.flatMap((row) => JSON.parse(row.hardware_versions) as string[]))];
    // The form that sortNewestFirst sorts.
    return { id: version, firmwareVersion: version, hardwareVersions, profiles: sorted.map(profileFromRow) };
  });
  return sortNewestFirst(versions).map(({ id: version, hardwareVersions, profiles: versionProfiles }) => ({
    version,
    hardwareVersions,
    profiles: versionProfiles,
  }));
}

function getRegionIndex(region: string): number {
  return (REGIONS as readonly string[]).indexOf(region);
}

function profileFromRow(row: ProfileOfModelRow): ListedProfile {
  return {
    id: row.id,
    region: row.region,
    macVersion: row.mac_version,
    payloadCodecRuntime: row.payload_codec_runtime,
    decodesUplinks: row.decodes_uplinks === 1,
    encodesDownlinks: row.encodes_downlinks === 1,
  };
}
