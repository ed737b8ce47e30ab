import type { DigitalDeviceServiceServer } from '../../gen/digitaldevice/v2/digital_device_service';
import type { HandlersOf } from '../../api/pipeline/handlers';
import type { DeviceProfiles } from './deviceProfiles';
import { modelPageToMessage, modelQueryFromMessage, queryFromMessage, templateToMessage } from './profileMessages';

/** The methods of DigitalDeviceService that this module implements. */
type ProfileHandlers = Pick<HandlersOf<DigitalDeviceServiceServer>, 'getDeviceProfileTemplate' | 'listDeviceProfiles'>;

/** Handlers for LoRaWAN device profiles. */
export function profileHandlers(profiles: DeviceProfiles): ProfileHandlers {
  return {
    getDeviceProfileTemplate: async (request) => templateToMessage(await profiles.find(queryFromMessage(request))),
    listDeviceProfiles: async (request, context) =>
      modelPageToMessage(await profiles.list(context.organizationId, modelQueryFromMessage(request))),
  };
}
