import { type ConnectorType, SCHEMA_DIALECT } from '../../connectorType';
import { DEVICE_PROPERTIES } from '../../deviceConfiguration';

/** Control characters, unpaired surrogates and line separators. */
const UNUSABLE_IN_ID = /[\p{Cc}\p{Cs}\u2028\u2029]/u;
const MAX_ID_LENGTH = 255;

/** The connector type for on-site gateway software that attaches over gRPC (`gateway.v1.GatewayService/Attach`). */
export const GATEWAY: ConnectorType = {
  id: 'gateway',
  type: 'gateway',
  name: 'Gateway over gRPC',
  description:
    'On-site gateway software attaches with one stream (gateway.v1.GatewayService/Attach): it receives commands for its devices, and sends their responses and uplinks.',
  capabilities: ['uplink', 'downlink', 'native_ack', 'cancel_command'],
  configurationSchema: { $schema: SCHEMA_DIALECT, type: 'object', properties: {}, additionalProperties: false },
  deviceConfigurationSchema: { $schema: SCHEMA_DIALECT, type: 'object', properties: DEVICE_PROPERTIES },
  secretFields: [],
  secretPlaceFields: [],
  checkConfiguration: () => [],
  checkDeviceConfiguration: () => [],
  getKind: () => 'gateway',
  checkCommand: () => [],
  findClientDeviceId: (text) => {
    const id = text.trim();
    return id !== '' && Array.from(id).length <= MAX_ID_LENGTH && !UNUSABLE_IN_ID.test(id) ? id : undefined;
  },
  clientDeviceIdForm: `1 to ${MAX_ID_LENGTH} characters after trimming, without control characters`,
};
