import { Disposables } from '../../src/server';
import { MemoryLog } from '../support/edge';

it('closes everything that was opened, last first, even if closing one fails', async () => {
  const closed: string[] = [];
  const log = new MemoryLog();
  const failing = (name: string) => () => {
    closed.push(name);
    throw new Error(`${name} does not close`);
  };
  const actions = [
    () => void closed.push('lock'),
    failing('database'),
    async () => await Promise.resolve().then(failing('port')),
    () => void closed.push('timer'),
  ];
  const disposables = new Disposables(log);
  for (const action of actions) disposables.add(action);
  await expect(disposables.disposeAll()).rejects.toThrow('port does not close');
  expect(closed).toEqual(['timer', 'port', 'database', 'lock']);
  expect(log.of('server.close_failed')).toEqual([
    { err: expect.objectContaining({ message: 'database does not close' }) },
  ]);
});

it('succeeds when nothing fails', async () => {
  const disposables = new Disposables(new MemoryLog());
  disposables.add(() => {});
  await disposables.disposeAll();
});
