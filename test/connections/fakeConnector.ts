import type { ConnectionCheck, Connector, OpenConnection, Peer, SendResult } from '../../src/connections/connector';
import { CONNECTORS } from '../../src/connections/connectors';
import type { ConnectorType } from '../../src/connections/connectorType';

/** A connector type with two secret fields and every kind of rule. */
export const FAKE: ConnectorType = {
  id: 'fake',
  type: 'fake',
  name: 'Fake',
  description: 'For tests.',
  capabilities: ['uplink', 'downlink'],
  configurationSchema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    additionalProperties: false,
    required: ['url'],
    dependentRequired: { password: ['username'] },
    properties: {
      url: { type: 'string', format: 'uri', description: 'The URL of the other side.' },
      username: { type: 'string', minLength: 1, maxLength: 20 },
      password: { type: 'string', writeOnly: true },
      token: { type: 'string', writeOnly: true },
      keepaliveSeconds: { type: 'integer', minimum: 5, maximum: 600, default: 30 },
      application: { type: 'string', format: 'uuid' },
      protocol: { enum: ['auto', '5', '3.1.1'] },
      topic: { type: 'string', pattern: '^[^#]+$', description: 'A topic without #.' },
      topics: { type: 'array', maxItems: 3, items: { type: 'string', minLength: 2 } },
      answer: {
        oneOf: [
          { type: 'object', additionalProperties: false, required: ['kind'], properties: { kind: { const: 'none' } } },
          {
            type: 'object',
            additionalProperties: false,
            required: ['kind', 'statusPath'],
            properties: { kind: { const: 'topic' }, statusPath: { type: 'string' } },
          },
        ],
      },
    },
  },
  deviceConfigurationSchema: { type: 'object', properties: { deviceClass: { enum: ['A', 'B', 'C'] } } },
  secretFields: ['password', 'token'],
  secretPlaceFields: ['url'],
  checkConfiguration: ({ password }) =>
    password === 'guess'
      ? [{ field: 'configuration.password', description: 'can be guessed; choose another one' }]
      : [],
  checkDeviceConfiguration: () => [],
  getKind: () => 'mqtt',
  checkCommand: () => [],
  findClientDeviceId: (text) => text,
  clientDeviceIdForm: 'anything',
};

/** Adds the type to the connectors of the server for the lifetime of this process. */
export function registerFake(): void {
  if (!CONNECTORS.includes(FAKE)) (CONNECTORS as ConnectorType[]).push(FAKE);
}

/** A connector without network access that records its calls. */
export class FakeConnector implements Connector {
  readonly id = FAKE.id;
  /** The connections that were passed to this connector, in order. */
  readonly changed: OpenConnection[] = [];
  readonly deleted: string[] = [];
  readonly tested: OpenConnection[] = [];
  /** Returns the checks of a connection test. */
  runChecks: (signal: AbortSignal) => Promise<readonly ConnectionCheck[]> = async () => [
    { name: 'sign_in', outcome: 'ok', message: '' },
  ];
  /** Called with each connection that is started. */
  onChanged: (open: OpenConnection) => void = () => {};

  start(): void {}

  connectionChanged(open: OpenConnection): void {
    this.changed.push(open);
    this.onChanged(open);
  }

  connectionDeleted(connectionId: string): void {
    this.deleted.push(connectionId);
  }

  peer(): Peer | undefined {
    return undefined;
  }

  connectSoon(): void {}

  async send(): Promise<SendResult> {
    return 'not_sent';
  }

  cancelUnsent(): boolean {
    return false;
  }

  cancelAtGateway(): void {}

  async test(open: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    this.tested.push(open);
    return await this.runChecks(signal);
  }

  async stop(): Promise<void> {}
}
