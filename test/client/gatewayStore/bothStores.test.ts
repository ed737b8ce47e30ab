import { type GatewayStore, memoryStore, sqliteStore } from '../../../src/client/gateway';
import { REMEMBERED_COMMANDS } from '../../../src/client/gateway/store/gatewayStore';
import { acknowledge, command, forget, IDENTITY, keep, newFile, removeFiles, thrownBy, uplink } from './stores';

const KINDS: readonly (readonly [string, () => GatewayStore])[] = [
  ['memory', () => memoryStore()],
  ['sqlite', () => sqliteStore(newFile())],
];

describe.each(KINDS)('the %s store', (_, make) => {
  let store: GatewayStore;

  beforeEach(() => {
    store = make();
    store.open(IDENTITY);
  });

  afterEach(() => {
    store.close();
    removeFiles();
  });

  const idsOf = (position = 0, most = 100) => store.uplinksAfter(position, most).map(({ uplinkId }) => uplinkId);
  const openIds = () => store.openCommands().map(({ executionId }) => executionId);

  it('keeps commands in the order in which they came, and what becomes of them', () => {
    store.apply([keep('e1'), keep('e2'), keep('e3')]);
    const ended = command('e1', 'ended', { result: 1, code: 'ok', text: 'done', time: 1_700_000_000_500 });
    store.apply([keep('e2', 'started'), { kind: 'command', command: ended }]);
    expect(openIds()).toEqual(['e1', 'e2', 'e3']);
    expect(store.findCommand('e1')).toEqual({ ...ended, message: expect.anything() });
    expect(Buffer.from(store.findCommand('e1')?.message ?? [])).toEqual(Buffer.from('command e1'));
    expect(store.findCommand('e2')).toMatchObject({ stage: 'started', expiresAtUptimeMs: 60_000.5, machineStart: 'start-1' });
    expect(store.findCommand('e4')).toBeUndefined();
  });

  it('never goes back a stage', () => {
    store.apply([keep('e1', 'started')]);
    store.apply([keep('e1', 'received', { code: 'again' })]);
    store.apply([keep('e1', 'started', { code: 'again' })]);
    expect(store.findCommand('e1')).toMatchObject({ stage: 'started', code: '' });
    store.apply([keep('e1', 'ended', { result: 1 }), keep('e1', 'ended', { result: 3 })]);
    expect(store.findCommand('e1')).toMatchObject({ stage: 'ended', result: 1 });
  });

  it('remembers an acknowledged command by its id and result, and does not begin it again', () => {
    store.apply([keep('e1', 'ended', { result: 2, code: 'busy', text: 'long', time: 7 }), keep('e2')]);
    store.apply([acknowledge('e1'), acknowledge('unknown')]);
    store.apply([keep('e1'), acknowledge('e1')]);
    expect(openIds()).toEqual(['e2']);
    expect(store.findCommand('e1')).toEqual({ executionId: 'e1', stage: 'acknowledged', message: new Uint8Array(0), expiresAtUptimeMs: 0, machineStart: '', time: 7, result: 2, code: 'busy', text: '' });
  });

  it('remembers the newest hundred thousand of them', () => {
    const ids = Array.from({ length: REMEMBERED_COMMANDS + 5 }, (_, at) => `e${at}`);
    store.apply(ids.flatMap((id) => [keep(id, 'ended'), acknowledge(id)]));
    expect(store.findCommand('e4')).toBeUndefined();
    expect(store.findCommand('e5')?.stage).toBe('acknowledged');
    expect(store.findCommand(ids.at(-1) ?? '')?.stage).toBe('acknowledged');
  });

  it('keeps uplinks in order until they are acknowledged, each id once', () => {
    store.apply([uplink('u1'), uplink('u2'), uplink('u3'), uplink('u2', 99)]);
    expect([store.uplinkCount, store.uplinkBytes]).toEqual([3, store.uplinksAfter(0, 9).reduce((sum, { message }) => sum + message.length, 0)]);
    expect(store.uplinksAfter(0, 100).map(({ message }) => message.length)).toEqual([40, 40, 40]);
    store.apply([forget('u2'), forget('unknown'), forget('u2')]);
    expect([idsOf(), store.uplinkCount]).toEqual([['u1', 'u3'], 2]);
    expect(store.uplinkBytes).toBe(store.uplinksAfter(0, 9).reduce((sum, { message }) => sum + message.length, 0));
  });

  it('goes on after a position whose uplink is gone', () => {
    store.apply([uplink('u1'), uplink('u2'), uplink('u3')]);
    const [, second] = store.uplinksAfter(0, 2);
    store.apply([forget('u1'), forget('u2'), forget('u3')]);
    expect(idsOf(second?.position)).toEqual([]);
    store.apply([uplink('u4'), uplink('u1')]);
    expect(idsOf(second?.position)).toEqual(['u4', 'u1']);
  });

  it('gives pages of a bounded number and size', () => {
    store.apply(Array.from({ length: 300 }, (_, at) => uplink(`u${at}`, 64 * 1024)));
    const seen: string[] = [];
    for (let page = store.uplinksAfter(0, 50), pages = 1; page.length > 0; page = store.uplinksAfter(page.at(-1)?.position ?? 0, 1000), pages += 1) {
      expect(page.length).toBeLessThanOrEqual(pages === 1 ? 50 : 65);
      seen.push(...page.map(({ uplinkId }) => uplinkId));
    }
    expect(seen).toEqual(Array.from({ length: 300 }, (_, at) => `u${at}`));
  });

  it('finds what comes after a position in a long row of which most is gone', () => {
    store.apply(Array.from({ length: 5000 }, (_, at) => uplink(`u${at}`)));
    const { position } = store.uplinksAfter(0, 2500).at(-1) ?? { position: 0 };
    store.apply(Array.from({ length: 4990 }, (_, at) => forget(`u${at + 1}`)));
    expect(idsOf()).toEqual(['u0', ...Array.from({ length: 9 }, (_, at) => `u${at + 4991}`)]);
    expect(idsOf(position, 2)).toEqual(['u4991', 'u4992']);
  });

  it('is there again after it was closed', () => {
    store.apply([keep('e1', 'started'), keep('e2', 'ended'), acknowledge('e2'), uplink('u1'), uplink('u2'), forget('u1')]);
    store.close();
    expect(thrownBy(() => store.apply([uplink('u3')])).reason).toBe('store_failed');
    expect(store.open({ connectionId: 'con_1', gatewayId: undefined })).toEqual({ gatewayId: 'gw-1' });
    expect([openIds(), store.findCommand('e2')?.stage, idsOf(), store.uplinkCount]).toEqual([['e1'], 'acknowledged', ['u2'], 1]);
    store.apply([keep('e3'), uplink('u3')]);
    expect([openIds(), idsOf()]).toEqual([
      ['e1', 'e3'],
      ['u2', 'u3'],
    ]);
  });

  it('belongs to one gateway of one connection, and to one user at a time', () => {
    expect(thrownBy(() => store.open(IDENTITY)).reason).toBe('store_in_use');
    store.close();
    const ofConnection = thrownBy(() => store.open({ ...IDENTITY, connectionId: 'con_2' }));
    expect([ofConnection.reason, ofConnection.message]).toEqual(['store_of_another', expect.stringMatching(/belongs to the connection con_1, .* con_2; give each connection a store of its own$/)]);
    const ofGateway = thrownBy(() => store.open({ ...IDENTITY, gatewayId: 'gw-2' }));
    expect([ofGateway.reason, ofGateway.message]).toEqual(['store_of_another', expect.stringMatching(/belongs to the gateway gw-1, .* gw-2; leave gatewayId out/)]);
    expect(store.open(IDENTITY)).toEqual({ gatewayId: 'gw-1' });
  });

  it('makes a gateway id where none is given, and keeps it', () => {
    const other = make();
    const { gatewayId } = other.open({ connectionId: 'con_1', gatewayId: undefined });
    expect(gatewayId).toMatch(/^[0-9a-f-]{36}$/);
    other.close();
    expect(other.open({ connectionId: 'con_1', gatewayId: undefined })).toEqual({ gatewayId });
    other.close();
  });
});
