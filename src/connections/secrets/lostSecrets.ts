import type { Database } from '../../database';
import { ConnectionRepository } from '../connectionRepository';
import { findKeyIdIn, keyIdOf } from './secretBox';

const PAGE = 200;

/** The names of the connections, of all organizations, with secrets that a key does not open; undefined: there is no key. Opens none of them. */
export async function connectionsWithLostSecrets({ db }: Database, key: Buffer | undefined): Promise<string[]> {
  const connections = new ConnectionRepository(db);
  const keyId = key && keyIdOf(key);
  const names: string[] = [];
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page = await connections.listSealed(after, PAGE);
    for (const { name, sealedSecrets } of page) if (Object.values(sealedSecrets).some((sealed) => keyId === undefined || findKeyIdIn(sealed) !== keyId)) names.push(name);
    after = page.length < PAGE ? undefined : page.at(-1)?.id;
  }
  return names;
}
