import { status } from '@grpc/grpc-js';
import { version } from '../../package.json';
import { ConnectionState } from '../../src/gen/connection/connection_service';
import type { Hello } from '../../src/gen/gateway/v1/gateway_service';
import { openAttachRoom, type AttachRoom } from './attachRoom';

describe('the version of the protocol that a gateway and the server speak', () => {
  let room: AttachRoom;
  beforeAll(async () => {
    room = await openAttachRoom();
  });
  afterAll(async () => await room.stop());

  function attach(hello: Partial<Hello>): ReturnType<AttachRoom['open']> {
    const gateway = room.open();
    gateway.hello({ connectionId: room.connection.id, ...hello });
    return gateway;
  }

  it.each([
    ['neither end of it, as gateways do that are older than it', {}],
    ['just ours', { lowestProtocolVersion: 1, highestProtocolVersion: 1 }],
    ['the highest alone, and it is newer', { highestProtocolVersion: 7 }],
    ['a range up to the highest there is', { lowestProtocolVersion: 1, highestProtocolVersion: 2_147_483_647 }],
  ])('is the highest that both do where the gateway says %s', async (_, hello) => {
    const gateway = attach(hello);
    expect(await gateway.next('welcome')).toMatchObject({ protocolVersion: 1, serverVersion: version });
    gateway.end();
    await gateway.ended;
  });

  it('is none where the gateway is too new for the server: it says what to do, and who is attached stays attached', async () => {
    const attached = attach({});
    await attached.next('welcome');
    expect(await attach({ gatewayId: 'newer', lowestProtocolVersion: 2, highestProtocolVersion: 3 }).ended).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'protocol_version_unsupported',
      message: 'the gateway speaks versions 2 to 3 of the protocol and the server version 1; update the server, or take an older version of the gateway software',
      metadata: { lowest: '1', highest: '1' },
    });
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_CONNECTED, lastError: '' });
    attached.uplink('u1');
    expect(await attached.next('uplinkAck')).toMatchObject({ uplinkId: 'u1' });
    attached.end();
    await attached.ended;
  });

  it('is to be found where a gateway is turned away for it: in the log, the status and the test of the connection', async () => {
    const refused = /^protocol_version_unsupported: the gateway speaks version 2 of the protocol and the server version 1; update the server/;
    await attach({ gatewayId: 'turned-away', bootId: 'b', software: 'boiler 2', lowestProtocolVersion: 2, highestProtocolVersion: 2 }).ended;
    expect(room.log.of('gateway.version_refused').at(-1)).toMatchObject({ connection_id: room.connection.id, gateway_id: 'turned-away', boot_id: 'b', software: 'boiler 2', message: expect.stringContaining('the gateway speaks version 2') });
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISCONNECTED, lastError: expect.stringMatching(refused) });
    expect(await room.gateway.test({ connection: room.connection, settings: {} })).toEqual([{ name: 'gateway', outcome: 'warning', message: expect.stringMatching(/^no gateway is attached now: protocol_version_unsupported: /) }]);
    const gateway = attach({});
    await gateway.next('welcome');
    expect(await room.status()).toMatchObject({ lastError: '' });
    gateway.end();
    await gateway.ended;
  });

  it.each([
    ['a lowest above the highest', { lowestProtocolVersion: 3, highestProtocolVersion: 2 }, ['hello.lowestProtocolVersion']],
    ['a lowest above 1 and no highest, which is 1', { lowestProtocolVersion: 2 }, ['hello.lowestProtocolVersion']],
    ['numbers below 0', { lowestProtocolVersion: -1, highestProtocolVersion: -2_147_483_648 }, ['hello.lowestProtocolVersion', 'hello.highestProtocolVersion']],
    ['software with too long a name', { software: 'x'.repeat(129) }, ['hello.software']],
  ])('is not negotiated from %s', async (_, hello, fields) => {
    expect(await attach(hello).ended).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields });
  });

  it('is in the log with the software, which stands in the status too, while it is attached, and cannot break a line', async () => {
    const gateway = attach({ gatewayId: 'logged', software: ' boiler-gateway\n2.1\u001b[31m\u2028\u202e ' });
    await gateway.next('welcome');
    expect(room.log.of('gateway.attached').at(-1)).toMatchObject({ gateway_id: 'logged', protocol_version: 1, software: 'boiler-gateway 2.1 [31m' });
    expect(await room.status()).toMatchObject({ software: 'boiler-gateway 2.1 [31m' });
    gateway.end();
    await gateway.ended;
    await room.log.until('gateway.detached', room.log.of('gateway.attached').length);
    expect(await room.status()).toMatchObject({ software: '' });
  });

  it('is shown with as many letters of its software as the rule lets in', async () => {
    const gateway = attach({ gatewayId: 'emojis', software: `a${'🔥'.repeat(127)}` });
    await gateway.next('welcome');
    expect(await room.status()).toMatchObject({ software: `a${'🔥'.repeat(127)}` });
    gateway.end();
    await gateway.ended;
  });
});
