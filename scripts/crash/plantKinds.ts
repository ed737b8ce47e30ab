import type { CommandDefinition } from '../../src/gen/actuator_command/v2/actuator_command_service';
import type { Transport } from './brokerPoints';
import { APPLICATION_ID } from './loraNetwork';

/** How devices are connected, and what their commands contain. */
export interface PlantKind {
  readonly connectorId: string;
  readonly configuration: Readonly<Record<string, unknown>>;
  getId(n: number): string;
  /** The path of the position in an uplink. */
  readonly sourcePath: string;
  /** Additional payload fields. */
  readonly extraFields: Readonly<Record<string, string>>;
  /** The command fields that the transport requires, for the n-th device. */
  toCommand(n: number): Partial<CommandDefinition>;
}

/** Devices behind a gateway. */
export const GATEWAY_PLANT: PlantKind = {
  connectorId: 'gateway',
  configuration: {},
  getId: (n) => `valve-${n}`,
  sourcePath: 'position',
  extraFields: {},
  toCommand: () => ({}),
};

/** Creates the kind for devices behind a broker. */
export function createPlantKind(transport: Transport, url: string): PlantKind {
  if (transport === 'chirpstack') {
    return {
      connectorId: 'chirpstack',
      configuration: { url, applicationId: APPLICATION_ID, encoding: 'json' },
      getId: (n) => `00000000000000${n.toString(16).padStart(2, '0')}`,
      sourcePath: 'object.position',
      extraFields: {},
      toCommand: alternateConfirmation,
    };
  }
  const answer = {
    kind: 'topic',
    answerTopic: 'plant/{clientDeviceId}/answer',
    correlationPath: 'id',
    statusPath: 'status',
    okValues: ['ok'],
  };
  const configuration = {
    url,
    uplinkTopic: 'plant/{clientDeviceId}/up',
    downlinkTopic: 'plant/{clientDeviceId}/command',
    ...(transport === 'mqtt_answer' && { answer }),
  };
  return {
    connectorId: 'mqtt',
    configuration,
    getId: (n) => `valve-${n}`,
    sourcePath: 'position',
    extraFields: { id: '{{execution.id}}' },
    toCommand: () => ({}),
  };
}

function alternateConfirmation(n: number): Partial<CommandDefinition> {
  return { fPort: 10, confirmed: n % 2 === 1 };
}
