import type {
  DeviceProfileTemplate,
  GetDeviceProfileTemplateRequest,
  ListDeviceProfilesRequest,
  ListDeviceProfilesResponse,
} from '../../gen/digitaldevice/v2/digital_device_service';
import type { ModelPage, ModelQuery, ProfileQuery, ProfileTemplate } from './catalogue';

/** Reads a look-up from a request. */
export function queryFromMessage({
  brand,
  model,
  band,
  firmwareVersion,
}: GetDeviceProfileTemplateRequest): ProfileQuery {
  return { brand, model, band, firmwareVersion };
}

/** Reads the list filters from a request. */
export function modelQueryFromMessage({
  search,
  brand,
  model,
  band,
  pageSize,
  pageToken,
}: ListDeviceProfilesRequest): ModelQuery {
  return { search, brand, model, band, pageSize, pageToken };
}

/** Converts a profile to its proto message. */
export function templateToMessage(profile: ProfileTemplate): DeviceProfileTemplate {
  const { id, description, codec, payloadCodecRuntime, macVersion, regParamsRevision, region } = profile;
  return {
    id,
    name: `${profile.modelName} ${profile.firmwareVersion}`,
    description,
    codec,
    payloadCodecRuntime,
    macVersion,
    regParamsRevision,
    region,
    deviceStatusReqInterval: profile.deviceStatusReqInterval,
    uplinkInterval: profile.uplinkInterval,
    flushQueueOnActivate: profile.flushQueueOnActivate,
    supportsClassB: profile.supportsClassB,
    supportsClassC: profile.supportsClassC,
    supportsOtaa: profile.supportsOtaa,
  };
}

/** Converts a page of models to the response. */
export function modelPageToMessage({ models, total, nextPageToken }: ModelPage): ListDeviceProfilesResponse {
  return {
    models: models.map(({ brandId, modelId, brandName, modelName, description, source, firmwareVersions }) => ({
      brand: brandId,
      brandName,
      model: modelId,
      modelName,
      description,
      source,
      firmwareVersions: firmwareVersions.map(({ version, hardwareVersions, profiles }) => ({
        version,
        hardwareVersions: [...hardwareVersions],
        profiles: profiles.map((profile) => ({ ...profile })),
      })),
    })),
    total,
    nextPageToken,
  };
}
