import type { DigitalDeviceServiceServer } from '../../gen/digitaldevice/v2/digital_device_service';
import type { HandlersOf } from '../../rpc/handlers';
import type { DeviceProfiles } from './deviceProfiles';
import { modelPageToMessage, modelQueryFromMessage, queryFromMessage, templateToMessage } from './profileMessages';

/** What this room answers of DigitalDeviceService. */
export type ProfileHandlers = Pick<HandlersOf<DigitalDeviceServiceServer>, 'getDeviceProfileTemplate' | 'listDeviceProfiles'>;

/** The profiles of LoRaWAN devices. */
export function profileHandlers(profiles: DeviceProfiles): ProfileHandlers {
  return {
    getDeviceProfileTemplate: async (request) => templateToMessage(await profiles.find(queryFromMessage(request))),
    listDeviceProfiles: async (request, context) => modelPageToMessage(await profiles.list(context.organizationId, modelQueryFromMessage(request))),
  };
}
