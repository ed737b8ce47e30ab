import { randomBytes, randomUUID } from 'node:crypto';
import type { UnitOfWork } from '../database';
import { Cursors } from '../kernel/pages';
import type { AccessRepositories } from './accessRepositories';

const SECRET_BYTES = 32;

/**
 * Returns the encoder of page tokens, which uses a secret of this installation. The secret is created on first use and
 * stored in the database, so tokens stay valid after a restart.
 */
export async function openCursors(uow: UnitOfWork<AccessRepositories>): Promise<Cursors> {
  return new Cursors(await getSecret(uow, 'page_token_secret'));
}

/** Returns the secret that signs image links. It is created on first use and stored in the database. */
export async function openLinkSecret(uow: UnitOfWork<AccessRepositories>): Promise<Buffer> {
  return await getSecret(uow, 'media_link_secret');
}

/** Returns the id of this installation. It stays the same in restored databases and copies, and is not secret. */
export async function openInstallationId(uow: UnitOfWork<AccessRepositories>): Promise<string> {
  return await uow.repos.settings.getOrCreate('installation_id', randomUUID);
}

/** Returns a stored secret of 32 bytes, which is created on first use. */
async function getSecret(uow: UnitOfWork<AccessRepositories>, name: string): Promise<Buffer> {
  return Buffer.from(
    await uow.repos.settings.getOrCreate(name, () => randomBytes(SECRET_BYTES).toString('base64')),
    'base64',
  );
}
