import { randomBytes, randomUUID } from 'node:crypto';
import type { UnitOfWork } from '../database';
import { Cursors } from '../kernel/pages';
import type { AccessRepositories } from './accessRepositories';

const SECRET_BYTES = 32;

/** Page tokens signed with the installation's own secret, which is made the first time; tokens survive a restart. */
export async function openCursors(uow: UnitOfWork<AccessRepositories>): Promise<Cursors> {
  return new Cursors(await secret(uow, 'page_token_secret'));
}

/** The secret that links to pictures are signed with; as lasting. */
export async function openLinkSecret(uow: UnitOfWork<AccessRepositories>): Promise<Buffer> {
  return await secret(uow, 'media_link_secret');
}

/** What names the database, wherever it is restored or copied to; no secret. */
export async function openInstallationId(uow: UnitOfWork<AccessRepositories>): Promise<string> {
  return await uow.repos.settings.getOrCreate('installation_id', randomUUID);
}

async function secret(uow: UnitOfWork<AccessRepositories>, name: string): Promise<Buffer> {
  return Buffer.from(await uow.repos.settings.getOrCreate(name, () => randomBytes(SECRET_BYTES).toString('base64')), 'base64');
}
