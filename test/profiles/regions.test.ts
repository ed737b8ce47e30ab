import { findRegion, REGIONS, servesRegion, listServingRegions } from '../../src/profiles/regions';

describe('the region parser', () => {
  const SPELLINGS: Record<(typeof REGIONS)[number], string[]> = {
    EU868: ['EU868', 'EU_868', 'EU-868', 'EU863-870', 'EU_863_870', 'EU863870'],
    US915: ['US915', 'US902-928', 'US_902_928'],
    AU915: ['AU915', 'AU915-928', 'AU_915_928'],
    AS923: ['AS923', 'AS_923', 'AS-923', 'AS923-1', 'AS_923_1', 'AS923_1'],
    AS923_2: ['AS923-2', 'AS_923_2', 'AS923_2', 'AS9232'],
    AS923_3: ['AS923-3', 'AS_923_3', 'AS923_3'],
    AS923_4: ['AS923-4', 'AS_923_4', 'AS923_4'],
    IN865: ['IN865', 'IN865-867', 'IN_865_867'],
    KR920: ['KR920', 'KR920-923', 'KR_920_923'],
    CN470: ['CN470', 'CN470-510', 'CN_470_510'],
    EU433: ['EU433', 'EU_433', 'EU-433', 'EU433-434'],
    RU864: ['RU864', 'RU864-870', 'RU_864_870'],
    CN779: ['CN779', 'CN779-787', 'CN_779_787'],
    ISM2400: ['ISM2400', 'ISM_2400', 'ISM-2400'],
  };

  it.each(REGIONS)('accepts every spelling of %s, in any case and with surrounding blanks', (region) => {
    for (const spelling of SPELLINGS[region])
      for (const text of [spelling, spelling.toLowerCase(), ` ${spelling}\n`])
        expect([text, findRegion(text)]).toEqual([text, region]);
  });

  it.each([
    '',
    'EU',
    '868',
    'EU869',
    'EU863',
    'EU 868',
    'EU--868',
    'E-U868',
    'EU868-',
    '_EU868',
    'AS923_5',
    'AS923-',
    'US915-928',
    'EU868 US915',
    'ISM',
    'aſ923',
    'toString',
    'constructor',
  ])('rejects %j', (text) => {
    expect(findRegion(text)).toBeUndefined();
  });

  it('finishes at once for a long text', () => {
    // A search that takes quadratic time would not end within the time limit.
    expect(findRegion(`AS${'1'.repeat(3_000_000)}x`)).toBeUndefined();
  });

  it('uses a profile of AS923 for its groups, after one of the group itself, and no other region for another one', () => {
    expect(listServingRegions('AS923_3')).toEqual(['AS923_3', 'AS923']);
    for (const requested of REGIONS)
      for (const offered of REGIONS)
        expect([requested, offered, servesRegion(offered, requested)]).toEqual([
          requested,
          offered,
          offered === requested || (offered === 'AS923' && requested.startsWith('AS923')),
        ]);
  });
});
