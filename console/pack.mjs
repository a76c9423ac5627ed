// Behind the build: the packed twin of every file that becomes smaller, and the licences of the fonts.
import { copyFileSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const DIST = "dist";
copyFileSync("node_modules/@fontsource-variable/ibm-plex-sans/LICENSE", join(DIST, "font-licence.txt"));

function pack(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) {
      pack(path);
    } else if (/\.(html|js|css|svg|txt)$/.test(name)) {
      const plain = readFileSync(path);
      const packed = gzipSync(plain, { level: 9 });
      if (packed.length < plain.length) writeFileSync(`${path}.gz`, packed);
    }
  }
}

pack(DIST);
