import type * as app from '../app';
import type { Core } from '../app';
import { systemClock } from '../kernel/clock';
import { commandLog } from './log';
import { configOf, type ConfigFlags } from './options';

const lazyApp = (): typeof app => require('../app');

/** Does work on the database, beside a running server or without one, and closes it again. Throws `schema_not_current` on one that was never migrated. */
export async function withCore<T>(flags: ConfigFlags, work: (core: Core) => Promise<T>): Promise<T> {
  const { config } = configOf(flags);
  const core = await lazyApp().openCore(config, { log: commandLog(config.log.level), clock: systemClock });
  try {
    return await work(core);
  } finally {
    await core.close();
  }
}
