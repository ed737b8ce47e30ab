import type * as app from '../server';
import type { AdminContext } from '../server';
import { systemClock } from '../kernel/clock';
import { createCommandLog } from './log';
import { getConfig, type ConfigFlags } from './options';

const loadServer = (): typeof app => require('../server');

/**
 * Opens the database for a command, with or without a running server, and closes it afterwards. Throws
 * `schema_outdated` if the database was never migrated.
 */
export async function withAdminContext<T>(flags: ConfigFlags, work: (admin: AdminContext) => Promise<T>): Promise<T> {
  const { config } = getConfig(flags);
  const admin = await loadServer().openAdminContext(config, {
    log: createCommandLog(config.log.level),
    clock: systemClock,
  });
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}
