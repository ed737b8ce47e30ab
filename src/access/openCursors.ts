import { randomBytes } from 'node:crypto';
import type { UnitOfWork } from '../database';
import { Cursors } from '../kernel/pages';
import type { AccessRepositories } from './accessRepositories';

const SECRET_BYTES = 32;

/** Page tokens signed with the installation's own secret, which is made the first time; tokens survive a restart. */
export async function openCursors(uow: UnitOfWork<AccessRepositories>): Promise<Cursors> {
  const secret = await uow.repos.settings.getOrCreate('page_token_secret', () => randomBytes(SECRET_BYTES).toString('base64'));
  return new Cursors(Buffer.from(secret, 'base64'));
}
