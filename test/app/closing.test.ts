import { closeAll } from '../../src/app';
import { MemoryLog } from '../support/edge';

it('closes all that was opened, the last first, whatever fails on the way', async () => {
  const closed: string[] = [];
  const log = new MemoryLog();
  const failing = (name: string) => () => {
    closed.push(name);
    throw new Error(`${name} does not close`);
  };
  const actions = [() => void closed.push('lock'), failing('database'), async () => await Promise.resolve().then(failing('port')), () => void closed.push('timer')];
  await expect(closeAll(actions, log)).rejects.toThrow('port does not close');
  expect(closed).toEqual(['timer', 'port', 'database', 'lock']);
  expect(log.of('server.close_failed')).toEqual([{ err: expect.objectContaining({ message: 'database does not close' }) }]);
});

it('is content when nothing fails', async () => {
  await closeAll([() => {}], new MemoryLog());
});
