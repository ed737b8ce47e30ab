import type { Database } from '../../database';
import { ConnectionRepository } from '../connectionRepository';
import { findKeyIdIn, getKeyId } from './secretCipher';

const PAGE_SIZE = 200;

/**
 * Returns the names of the connections of all organizations whose secrets neither the key nor the key of an unfinished
 * rotation can decrypt; undefined if there is no key. Decrypts none of them.
 */
export async function listConnectionsWithLostSecrets(
  { db }: Pick<Database, 'db'>,
  key: Buffer | undefined,
  nextKey?: Buffer,
): Promise<string[]> {
  const connections = new ConnectionRepository(db);
  const keyIds = new Set([key, nextKey].flatMap((candidate) => (candidate ? [getKeyId(candidate)] : [])));
  const names: string[] = [];
  let afterId: string | undefined = ''; // less than every id
  while (afterId !== undefined) {
    const page = await connections.listWithSecrets(afterId, PAGE_SIZE);
    for (const { name, encryptedSecrets } of page) {
      const hasLostSecret = Object.values(encryptedSecrets).some((encrypted) => {
        const keyId = findKeyIdIn(encrypted); // undefined for an unsupported format
        return keyId === undefined || !keyIds.has(keyId);
      });
      if (hasLostSecret) names.push(name);
    }
    afterId = page.length < PAGE_SIZE ? undefined : page.at(-1)?.id;
  }
  return names;
}
