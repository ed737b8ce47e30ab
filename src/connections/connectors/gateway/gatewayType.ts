import { type ConnectorType, SCHEMA_DIALECT } from '../../connectorType';
import { DEVICE_PROPERTIES } from '../../deviceConfiguration';

const CONTROL = /[\p{Cc}\p{Cs}\u2028\u2029]/u;
const LONGEST_ID = 255;

/** Gateway software of the site that attaches over gRPC (`gateway.v1.GatewayService/Attach`). */
export const GATEWAY: ConnectorType = {
  id: 'gateway',
  type: 'gateway',
  name: 'Gateway over gRPC',
  description: 'Gateway software of the site attaches by one stream (gateway.v1.GatewayService/Attach): it takes commands for the devices behind it, and brings their answers and uplinks.',
  capabilities: ['uplink', 'downlink', 'native_ack', 'withdraw'],
  configurationSchema: { $schema: SCHEMA_DIALECT, type: 'object', properties: {}, additionalProperties: false },
  deviceConfigurationSchema: { $schema: SCHEMA_DIALECT, type: 'object', properties: DEVICE_PROPERTIES },
  secretFields: [],
  secretPlaceFields: [],
  checkConfiguration: () => [],
  checkDeviceConfiguration: () => [],
  kindOf: () => 'gateway',
  checkCommand: () => [],
  findClientDeviceId: (text) => {
    const id = text.trim();
    return id !== '' && Array.from(id).length <= LONGEST_ID && !CONTROL.test(id) ? id : undefined;
  },
  clientDeviceIdForm: `1 to ${LONGEST_ID} characters after trimming, none of them a control character`,
};
