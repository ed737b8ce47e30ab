import { REGIONS } from '../regions';
import type { ListedModel, ListedProfile } from './catalogue';
import type { ModelRow, ProfileOfModelRow } from './modelListRepository';
import { newestFirst } from './newestFirst';
import { compareTexts } from './versions';

/** Models with their versions and profiles, as lists show them. */
export function listedModels(models: readonly ModelRow[], profiles: readonly ProfileOfModelRow[]): ListedModel[] {
  const ofModel = Map.groupBy(profiles, (profile) => profile.device_model_id);
  return models.map((model) => ({
    source: model.source,
    brandId: model.brand_id,
    brandName: model.brand_name,
    modelId: model.model_id,
    modelName: model.model_name,
    description: model.description,
    firmwareVersions: firmwareVersions(ofModel.get(model.id) ?? []),
  }));
}

function firmwareVersions(profiles: readonly ProfileOfModelRow[]): ListedModel['firmwareVersions'] {
  const versions = [...Map.groupBy(profiles, (profile) => profile.firmware_version)].map(([version, rows]) => {
    const sorted = rows.toSorted((a, b) => placeOf(a.region) - placeOf(b.region) || compareTexts(a.id, b.id));
    const hardwareVersions = [...new Set(sorted.flatMap((row) => JSON.parse(row.hardware_versions) as string[]))];
    return { id: version, firmwareVersion: version, hardwareVersions, profiles: sorted.map(listedProfile) };
  });
  return newestFirst(versions).map(({ id: version, hardwareVersions, profiles: ofVersion }) => ({ version, hardwareVersions, profiles: ofVersion }));
}

function placeOf(region: string): number {
  return (REGIONS as readonly string[]).indexOf(region);
}

function listedProfile(row: ProfileOfModelRow): ListedProfile {
  return {
    id: row.id,
    region: row.region,
    macVersion: row.mac_version,
    payloadCodecRuntime: row.payload_codec_runtime,
    decodesUplinks: row.decodes_uplinks === 1,
    encodesDownlinks: row.encodes_downlinks === 1,
  };
}
