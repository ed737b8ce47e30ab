// The main script of the single binary: runs the program from its assets, with the V8 code cache from warmUp.cjs.
'use strict';
const { getAssetKeys, getRawAsset } = require('node:sea');
const path = require('node:path');
const { Script } = require('node:vm');

// The build makes the program pure ASCII: reading it as latin1 takes a third of the time.
const source = Buffer.from(getRawAsset('program.js')).toString('latin1');
const cachedData = getAssetKeys().includes('program.cache') ? Buffer.from(getRawAsset('program.cache')) : undefined;
const file = process.execPath;
const script = new Script(source, { filename: 'plantroom.js', cachedData });
script.runInThisContext()(module.exports, require, module, file, path.dirname(file));
