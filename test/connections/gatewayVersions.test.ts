import { status } from '@grpc/grpc-js';
import { version } from '../../package.json';
import { ConnectionState } from '../../src/gen/connection/connection_service';
import type { Hello } from '../../src/gen/gateway/v1/gateway_service';
import { openAttachFixture, type AttachFixture } from './attachFixture';

describe('the protocol version between a gateway and the server', () => {
  let fixture: AttachFixture;
  beforeAll(async () => {
    fixture = await openAttachFixture();
  });
  afterAll(async () => await fixture.stop());

  function attach(hello: Partial<Hello>): ReturnType<AttachFixture['open']> {
    const gateway = fixture.open();
    gateway.hello({ connectionId: fixture.connection.id, ...hello });
    return gateway;
  }

  it.each([
    ['no version, as gateways from before the negotiation do', {}],
    ['only the version of the server', { lowestProtocolVersion: 1, highestProtocolVersion: 1 }],
    ['only a highest version, which is newer', { highestProtocolVersion: 7 }],
    ['a range up to the highest possible version', { lowestProtocolVersion: 1, highestProtocolVersion: 2_147_483_647 }],
  ])('is the highest common one when the gateway offers %s', async (_, hello) => {
    const gateway = attach(hello);
    expect(await gateway.next('welcome')).toMatchObject({ protocolVersion: 1, serverVersion: version });
    gateway.end();
    await gateway.ended;
  });

  it('is rejected when the gateway is too new for the server: the error says what to do, and an attached gateway stays attached', async () => {
    const attached = attach({});
    await attached.next('welcome');
    expect(
      await attach({ gatewayId: 'newer', lowestProtocolVersion: 2, highestProtocolVersion: 3 }).ended,
    ).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'protocol_version_unsupported',
      message:
        'the gateway supports versions 2 to 3 of the protocol and the server version 1: update the server, or use an older version of the gateway software',
      metadata: { lowest: '1', highest: '1' },
    });
    expect(await fixture.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_CONNECTED, lastError: '' });
    attached.uplink('u1');
    expect(await attached.next('uplinkAck')).toMatchObject({ uplinkId: 'u1' });
    attached.end();
    await attached.ended;
  });

  it('is reported after a rejection: in the log, the status and the connection test', async () => {
    const refused =
      /^protocol_version_unsupported: the gateway supports version 2 of the protocol and the server version 1: update the server/;
    await attach({
      gatewayId: 'turned-away',
      bootId: 'b',
      software: 'boiler 2',
      lowestProtocolVersion: 2,
      highestProtocolVersion: 2,
    }).ended;
    expect(fixture.log.of('gateway.version_rejected').at(-1)).toMatchObject({
      connection_id: fixture.connection.id,
      gateway_id: 'turned-away',
      boot_id: 'b',
      software: 'boiler 2',
      message: expect.stringContaining('the gateway supports version 2'),
    });
    expect(await fixture.status()).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_DISCONNECTED,
      lastError: expect.stringMatching(refused),
    });
    expect(await fixture.gateway.test({ connection: fixture.connection, settings: {} })).toEqual([
      {
        name: 'gateway',
        outcome: 'warning',
        message: expect.stringMatching(/^no gateway is attached: protocol_version_unsupported: /),
      },
    ]);
    const gateway = attach({});
    await gateway.next('welcome');
    expect(await fixture.status()).toMatchObject({ lastError: '' });
    gateway.end();
    await gateway.ended;
  });

  it.each([
    [
      'a lowest version above the highest',
      { lowestProtocolVersion: 3, highestProtocolVersion: 2 },
      ['hello.lowestProtocolVersion'],
    ],
    [
      'a lowest version above 1 and no highest one, which means 1',
      { lowestProtocolVersion: 2 },
      ['hello.lowestProtocolVersion'],
    ],
    [
      'negative versions',
      { lowestProtocolVersion: -1, highestProtocolVersion: -2_147_483_648 },
      ['hello.lowestProtocolVersion', 'hello.highestProtocolVersion'],
    ],
    ['a software name that is too long', { software: 'x'.repeat(129) }, ['hello.software']],
  ])('is not negotiated from %s', async (_, hello, fields) => {
    expect(await attach(hello).ended).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      fields,
    });
  });

  it('is logged with the software, which is also in the status while attached and cannot break a log line', async () => {
    const gateway = attach({ gatewayId: 'logged', software: ' boiler-gateway\n2.1\u001b[31m\u2028\u202e ' });
    await gateway.next('welcome');
    expect(fixture.log.of('gateway.attached').at(-1)).toMatchObject({
      gateway_id: 'logged',
      protocol_version: 1,
      software: 'boiler-gateway 2.1 [31m',
    });
    expect(await fixture.status()).toMatchObject({ software: 'boiler-gateway 2.1 [31m' });
    gateway.end();
    await gateway.ended;
    await fixture.log.until('gateway.detached', fixture.log.of('gateway.attached').length);
    expect(await fixture.status()).toMatchObject({ software: '' });
  });

  it('is shown with a software name of the maximum length', async () => {
    const gateway = attach({ gatewayId: 'emojis', software: `a${'🔥'.repeat(127)}` });
    await gateway.next('welcome');
    expect(await fixture.status()).toMatchObject({ software: `a${'🔥'.repeat(127)}` });
    gateway.end();
    await gateway.ended;
  });
});
