import type { Database } from '../../database';
import { ConnectionRepository } from '../connectionRepository';
import { findKeyIdIn, keyIdOf } from './secretBox';

const PAGE = 200;

/** The names of the connections, of all organizations, with secrets that a key does not open, nor the one of a change of the key that did not come to its end; undefined: there is no key. Opens none of them. */
export async function connectionsWithLostSecrets({ db }: Pick<Database, 'db'>, key: Buffer | undefined, next?: Buffer): Promise<string[]> {
  const connections = new ConnectionRepository(db);
  const keyIds = new Set([key, next].flatMap((one) => (one ? [keyIdOf(one)] : [])));
  const names: string[] = [];
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page = await connections.listSealed(after, PAGE);
    for (const { name, sealedSecrets } of page) if (Object.values(sealedSecrets).some((sealed) => !keyIds.has(findKeyIdIn(sealed) ?? ''))) names.push(name);
    after = page.length < PAGE ? undefined : page.at(-1)?.id;
  }
  return names;
}
