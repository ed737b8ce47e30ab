import { UsageError } from '../exit';
import { runFolderTest } from './folderTest';
import { runProfilesTest, type ProfilesFlags } from './profilesTest';

/** What `plantroom codec test` is given. */
export interface TestFlags extends ProfilesFlags {
  readonly profiles?: boolean;
}

/** `plantroom codec test`: the scripts of a folder, or the imported codecs. */
export async function runCodecTest(folder: string | undefined, { profiles, ...flags }: TestFlags): Promise<void> {
  if (profiles && folder !== undefined) throw new UsageError('give a folder or --profiles, not both');
  if (profiles) return await runProfilesTest(flags);
  if (flags.vendor || flags.source !== undefined) throw new UsageError('--vendor and --source choose among imported codecs: give --profiles with them');
  if (folder === undefined) throw new UsageError('give a folder of scripts, or --profiles for the imported codecs');
  await runFolderTest(folder, flags);
}
